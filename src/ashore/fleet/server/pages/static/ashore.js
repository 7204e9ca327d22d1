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
  const near = details.closest("tr, li, section")?.querySelector("a, h2, h3, p")?.textContent;
  const words = details.querySelector("summary")?.textContent.replace(/\d/g, "");
  return details.id || `${near} ${words}`;
}

// Returns what finds, in the fresh region, what was focused in the old one.
function keepFocus(region) {
  const focused = document.activeElement;
  if (!region.contains(focused)) return () => null;
  const nameOf = (each) =>
    each.tagName === "SUMMARY" ? keyOf(each.parentElement)
      : each.id || each.getAttribute("href") || each.getAttribute("aria-label");
  const name = nameOf(focused);
  const alike = focused.tagName.toLowerCase();
  return () => [...region.querySelectorAll(alike)].find((each) => nameOf(each) === name);
}

function takeRegion(old, fresh) {
  if (old.innerHTML === fresh.innerHTML) return;
  const findFocused = keepFocus(old);
  const opened = openDetails(old);
  const scrolled = [...old.querySelectorAll(".wide")].map((each) => each.scrollLeft);
  old.innerHTML = fresh.innerHTML;
  for (const each of old.querySelectorAll("details")) each.open ||= opened.has(keyOf(each));
  [...old.querySelectorAll(".wide")].forEach((each, i) => { each.scrollLeft = scrolled[i] ?? 0; });
  findFocused()?.focus({ preventScroll: true });
}

async function refresh() {
  if (loading) { again = true; return; }
  loading = true;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.redirected && answer.url.includes("/ui/login")) { location.reload(); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.body.dataset.stamp = page.body.dataset.stamp;
    // What a page did not have before, such as the answer to a question, is another page.
    const names = (some) => [...some.querySelectorAll("main form")].map((each) => each.action).join();
    if (names(page) !== names(document)) { location.reload(); return; }
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

// ---- a log is walked with the arrow keys

function startWalking() {
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest("input, select, textarea, .wide, pre");
    if (inField || event.altKey || event.ctrlKey || event.metaKey) return;
    const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    const link = rel && document.querySelector(`main a[rel=${rel}]`);
    if (link) link.click();
  });
}

// ---- a job file is checked as one types

function startChecking() {
  const area = document.querySelector("textarea[data-check]");
  if (!area) return;
  let waiting = null;
  let asked = 0;
  const check = async () => {
    const number = ++asked;
    const fields = new URLSearchParams(new FormData(area.form));
    fields.set("do", "check");
    const answer = await fetch(area.form.action, { method: "POST", body: fields });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(area.dataset.check);
    if (fresh && number === asked) takeRegion(document.getElementById(area.dataset.check), fresh);
  };
  area.form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => check().catch(() => {}), 300);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-line]");
    if (!link) return;
    event.preventDefault();
    const lines = area.value.split("\n").slice(0, Number(link.dataset.line) - 1);
    const place = lines.reduce((sum, line) => sum + line.length + 1, 0) + Number(link.dataset.column) - 1;
    area.focus();
    area.setSelectionRange(place, place);
  });
}

// ---- an old operator is dragged onto a new one: it is chosen in the list, which decides

function startDragging() {
  document.addEventListener("dragstart", (event) => {
    const old = event.target.closest?.("[data-old]");
    if (old) event.dataTransfer.setData("text/plain", old.dataset.old);
  });
  for (const target of document.querySelectorAll("[data-target]")) {
    target.addEventListener("dragover", (event) => {
      event.preventDefault();
      target.classList.add("over");
    });
    target.addEventListener("dragleave", () => target.classList.remove("over"));
    target.addEventListener("drop", (event) => {
      event.preventDefault();
      target.classList.remove("over");
      const list = document.getElementById(target.dataset.target);
      const old = event.dataTransfer.getData("text/plain");
      if ([...list.options].some((each) => each.value === old)) list.value = old;
      list.focus();
    });
  }
}

startFilters();
startWalking();
startChecking();
startDragging();
startEvents();
