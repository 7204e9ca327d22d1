-- Nexmark's queries that fill tables: rows are appended once they are final.

-- q0: Pass through: every bid as it is.
INSERT INTO nexmark.q0
SELECT auction, bidder, price, date_time, extra
FROM bid;

-- q1: Currency conversion: prices in euros.
INSERT INTO nexmark.q1
SELECT auction, bidder, 0.908 * price AS price, date_time, extra
FROM bid;

-- q2: Selection: bids for some auctions.
INSERT INTO nexmark.q2
SELECT auction, price
FROM bid
WHERE auction % 123 = 0;

-- q3: Local item suggestion: who sells things of one category in three states.
-- grows
INSERT INTO nexmark.q3
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');

-- q5: Hot items: the auctions with most bids in the last ten seconds, every two seconds.
-- rewritten: no join: the counts of a window are collected, and the highest are kept
INSERT INTO nexmark.q5
SELECT item.auction, item.num
FROM (
  SELECT explode(filter(items, each -> each.num = max_num)) AS item
  FROM (
    SELECT w, max(num) AS max_num, collect_list(struct(auction, num)) AS items
    FROM (
      SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w, count(*) AS num
      FROM bid
      GROUP BY auction, w
    )
    GROUP BY w
  )
);

-- q7: Highest bid: of each ten seconds.
-- rewritten: joined by the window itself, which lets state go; the time in the result is a plain one, as a stream has one event time
INSERT INTO nexmark.q7
SELECT b.auction, b.price, b.bidder, b.bid_time AS date_time, b.extra
FROM (
  SELECT auction, price, bidder, date_time + INTERVAL 0 SECONDS AS bid_time, extra,
         window(date_time, '10 seconds') AS w
  FROM bid
) AS b
JOIN (
  SELECT window(date_time, '10 seconds') AS w, max(price) AS max_price
  FROM bid
  GROUP BY w
) AS highest ON b.w = highest.w AND b.price = highest.max_price;

-- q8: Monitor new users: who opened an auction in the ten seconds of joining.
INSERT INTO nexmark.q8
SELECT p.id, p.name, p.w.start AS start_time
FROM (
  SELECT id, name, window(date_time, '10 seconds') AS w
  FROM person
  GROUP BY id, name, w
) AS p
JOIN (
  SELECT seller, window(date_time, '10 seconds') AS w
  FROM auction
  GROUP BY seller, w
) AS a ON p.id = a.seller AND p.w = a.w;

-- q10: Log to a file system: every bid, filed under its day and minute.
INSERT INTO nexmark.q10
SELECT auction, bidder, price, date_time, extra,
       date_format(date_time, 'yyyy-MM-dd') AS dt, date_format(date_time, 'HH:mm') AS hm
FROM bid;

-- q11: User sessions: how many bids somebody made without a pause of ten seconds.
INSERT INTO nexmark.q11
SELECT bidder, count(*) AS bid_count, s.start AS start_time, s.end AS end_time
FROM (SELECT bidder, session_window(date_time, '10 seconds') AS s, auction FROM bid)
GROUP BY bidder, s;

CREATE TEMPORARY VIEW side_input AS
SELECT id AS key, concat('side ', id) AS value
FROM range(100);

-- q13: Bounded side input: bids with what a table says of them.
INSERT INTO nexmark.q13
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM bid AS b
JOIN side_input AS s ON b.auction % 100 = s.key;

-- q14: Calculation: an expensive bid, at which time of the day, and how often a letter is in it.
INSERT INTO nexmark.q14
SELECT auction, bidder, 0.908 * price AS price,
       CASE
         WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
         WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
         ELSE 'otherTime'
       END AS bid_time_type,
       date_time, extra, regexp_count(extra, 'c') AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;

-- q20: Expand bid with auction: bids for things of one category.
-- grows
INSERT INTO nexmark.q20
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name,
       a.description, a.initial_bid, a.reserve, a.date_time AS auction_time, a.expires, a.seller,
       a.category
FROM bid AS b
JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10;

-- q21: Add channel id: known channels have one, others tell it in their address.
INSERT INTO nexmark.q21
SELECT auction, bidder, price, channel,
       CASE lower(channel)
         WHEN 'apple' THEN '0'
         WHEN 'google' THEN '1'
         WHEN 'facebook' THEN '2'
         WHEN 'baidu' THEN '3'
         ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
       END AS channel_id
FROM bid
WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''
   OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu');

-- q22: Get directories of addresses.
INSERT INTO nexmark.q22
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
       split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM bid;
