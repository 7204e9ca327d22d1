// Makes pages live and quicker to use; each works without it.
"use strict";

// ---- filter by typing

function filter(input) {
  const rows = [...document.querySelectorAll(`#${input.dataset.filter} [data-words]`)];
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    row.hidden = !words.every((word) => row.dataset.words.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  const status = input.form?.querySelector("[role=status]");
  if (status) status.textContent = words.length ? `${shown} of ${rows.length} shown` : "";
}

function startFilters() {
  for (const input of document.querySelectorAll("input[data-filter]")) {
    input.addEventListener("input", () => filter(input));
    if (input.form) {
      input.form.addEventListener("submit", (event) => event.preventDefault());
      for (const button of input.form.querySelectorAll("button")) button.hidden = true;
    }
    filter(input);
  }
}

// ---- live: the regions that are marked are taken from the page as the server has it now

let loading = false;
let again = false;

function openDetails(region) {
  return new Set([...region.querySelectorAll("details[open]")].map((each) => keyOf(each)));
}

function keyOf(details) {
  return details.id || details.closest("tr, li, section")?.querySelector("a, h2, h3, p")?.textContent;
}

function takeRegion(old, fresh) {
  if (old.innerHTML === fresh.innerHTML) return;
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const target = focused && (focused.id || focused.getAttribute("href"));
  const opened = openDetails(old);
  const scrolled = [...old.querySelectorAll(".wide")].map((each) => each.scrollLeft);
  old.innerHTML = fresh.innerHTML;
  for (const each of old.querySelectorAll("details")) each.open ||= opened.has(keyOf(each));
  [...old.querySelectorAll(".wide")].forEach((each, i) => { each.scrollLeft = scrolled[i] ?? 0; });
  if (target) {
    const found = [...old.querySelectorAll("[id], a")].find(
      (each) => each.id === target || each.getAttribute("href") === target,
    );
    found?.focus({ preventScroll: true });
  }
}

async function refresh() {
  if (loading) { again = true; return; }
  loading = true;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.redirected && answer.url.includes("/ui/login")) { location.reload(); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.body.dataset.stamp = page.body.dataset.stamp;
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(old.id);
      if (fresh) takeRegion(old, fresh);
    }
    for (const input of document.querySelectorAll("input[data-filter]")) filter(input);
  } catch {
    // The event source notices, and says so.
  } finally {
    loading = false;
    if (again) { again = false; setTimeout(refresh, 500); }
  }
}

function startEvents() {
  const address = document.body.dataset.events;
  if (!address) return;
  const source = new EventSource(address);
  const offline = document.getElementById("offline");
  source.addEventListener("stamp", (event) => {
    offline.hidden = true;
    if (event.data !== document.body.dataset.stamp) refresh();
  });
  source.addEventListener("error", () => { offline.hidden = false; });
}

startFilters();
startEvents();
