-- Nexmark's queries as they are written, where Spark's streaming refuses them or their state only grows.

-- q4: Average price for a category: of what each auction went for.
-- refused: an aggregate, a join or a deduplication follows another one that emits updates or late rows, which would be dropped as late
SELECT q.category, avg(q.final) AS final
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
) AS q
GROUP BY q.category;

-- q5: Hot items: the auctions with most bids in the last ten seconds, every two seconds.
-- refused: append mode writes a row of `aggregate by start of window 10 seconds every 2 seconds, end of window 10 seconds every 2 seconds` once it is final, and none ever is: no watermark applies to these keys
SELECT auction_bids.auction, auction_bids.num
FROM (
  SELECT auction, count(*) AS num, w.start AS window_start, w.end AS window_end
  FROM (SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w FROM bid)
  GROUP BY auction, w
) AS auction_bids
JOIN (
  SELECT max(num) AS max_num, window_start, window_end
  FROM (
    SELECT count(*) AS num, w.start AS window_start, w.end AS window_end
    FROM (SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w FROM bid)
    GROUP BY auction, w
  )
  GROUP BY window_start, window_end
) AS max_bids
ON auction_bids.window_start = max_bids.window_start
  AND auction_bids.window_end = max_bids.window_end
  AND auction_bids.num >= max_bids.max_num;

-- q6: Average selling price by seller: of the last ten auctions that each closed.
-- refused: `ROW_NUMBER() OVER (...)` needs all rows of a partition, and a stream is unbounded
SELECT q.seller, avg(q.final) OVER (
    PARTITION BY q.seller ORDER BY q.date_time ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
  ) AS average
FROM (
  SELECT *, row_number() OVER (PARTITION BY id ORDER BY price DESC) AS place
  FROM (
    SELECT a.id, a.seller, b.price AS final, b.price, b.date_time
    FROM auction AS a
    JOIN bid AS b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires
  )
) AS q
WHERE q.place = 1;

-- q7: Highest bid: of each ten seconds.
-- grows
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS max_price, w.end AS window_end
  FROM (SELECT price, window(date_time, '10 seconds') AS w FROM bid)
  GROUP BY w
) AS highest ON b.price = highest.max_price
WHERE b.date_time BETWEEN highest.window_end - INTERVAL 10 SECONDS AND highest.window_end;

-- q9: Winning bids: the highest bid of each auction, the first of those that are equal.
-- refused: `ROW_NUMBER() OVER (...)` needs all rows of a partition, and a stream is unbounded
SELECT id, item_name, seller, auction, bidder, price, bid_time
FROM (
  SELECT *, row_number() OVER (PARTITION BY id ORDER BY price DESC, bid_time) AS place
  FROM (
    SELECT a.id, a.item_name, a.seller, b.auction, b.bidder, b.price, b.date_time AS bid_time
    FROM auction AS a
    JOIN bid AS b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires
  )
)
WHERE place <= 1;

-- q15: Bidding statistics report: of each day, how many bids, bidders and auctions, by price.
-- refused: `count(DISTINCT ...)` would have to keep every value in state
SELECT date_format(date_time, 'yyyy-MM-dd') AS day,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS rank1_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       count(DISTINCT bidder) AS total_bidders,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
       count(DISTINCT auction) AS total_auctions,
       count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000)
         AS rank2_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid
GROUP BY day;

-- q16: Channel statistics report: the same of each channel.
-- refused: `count(DISTINCT ...)` would have to keep every value in state
SELECT channel, date_format(date_time, 'yyyy-MM-dd') AS day,
       max(date_format(date_time, 'HH:mm')) AS minute,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS rank1_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       count(DISTINCT bidder) AS total_bidders,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
       count(DISTINCT auction) AS total_auctions,
       count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000)
         AS rank2_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid
GROUP BY channel, day;

-- q18: Find last bid: of each bidder for each auction.
-- refused: `ROW_NUMBER() OVER (...)` needs all rows of a partition, and a stream is unbounded
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS place
  FROM bid
)
WHERE place <= 1;

-- q19: Auction top ten price: the ten highest bids of each auction.
-- refused: `ROW_NUMBER() OVER (...)` needs all rows of a partition, and a stream is unbounded
SELECT *
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid
)
WHERE rank_number <= 10;
