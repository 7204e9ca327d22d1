-- Nexmark's queries whose rows change later: what Spark hands on are updates, by key, for a topic each.

-- q9: Winning bids: the highest bid of each auction, the first of those that are equal.
-- rewritten: `max_by` in place of `row_number()`; the longest life of an auction bounds the join
-- grows
INSERT INTO `nexmark.q9`
SELECT a.id, max_by(
    struct(a.item_name, a.seller, b.auction, b.bidder, b.price, b.date_time AS bid_time),
    struct(b.price, -unix_micros(b.date_time))
  ) AS won
FROM auction AS a
JOIN bid AS b ON a.id = b.auction
WHERE b.date_time BETWEEN a.date_time AND a.expires
  AND b.date_time <= a.date_time + INTERVAL 1 MINUTE
GROUP BY a.id;

-- q12: Processing time windows: how many bids somebody made in ten seconds of the clock.
-- grows
INSERT INTO `nexmark.q12`
SELECT bidder, count(*) AS bid_count, w.start AS start_time, w.end AS end_time
FROM (SELECT bidder, window(current_timestamp(), '10 seconds') AS w FROM bid)
GROUP BY bidder, w;

-- q15: Bidding statistics report: of each day, how many bids, bidders and auctions, by price.
-- rewritten: `size(collect_set(x))` in place of `count(DISTINCT x)`
-- grows
INSERT INTO `nexmark.q15`
SELECT date_format(date_time, 'yyyy-MM-dd') AS day,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS rank1_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       size(collect_set(bidder)) AS total_bidders,
       size(collect_set(bidder) FILTER (WHERE price < 10000)) AS rank1_bidders,
       size(collect_set(bidder) FILTER (WHERE price >= 10000 AND price < 1000000)) AS rank2_bidders,
       size(collect_set(bidder) FILTER (WHERE price >= 1000000)) AS rank3_bidders,
       size(collect_set(auction)) AS total_auctions,
       size(collect_set(auction) FILTER (WHERE price < 10000)) AS rank1_auctions,
       size(collect_set(auction) FILTER (WHERE price >= 10000 AND price < 1000000))
         AS rank2_auctions,
       size(collect_set(auction) FILTER (WHERE price >= 1000000)) AS rank3_auctions
FROM bid
GROUP BY day;

-- q16: Channel statistics report: the same of each channel.
-- rewritten: `size(collect_set(x))` in place of `count(DISTINCT x)`
-- grows
INSERT INTO `nexmark.q16`
SELECT channel, date_format(date_time, 'yyyy-MM-dd') AS day,
       max(date_format(date_time, 'HH:mm')) AS minute,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS rank1_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       size(collect_set(bidder)) AS total_bidders,
       size(collect_set(bidder) FILTER (WHERE price < 10000)) AS rank1_bidders,
       size(collect_set(bidder) FILTER (WHERE price >= 10000 AND price < 1000000)) AS rank2_bidders,
       size(collect_set(bidder) FILTER (WHERE price >= 1000000)) AS rank3_bidders,
       size(collect_set(auction)) AS total_auctions,
       size(collect_set(auction) FILTER (WHERE price < 10000)) AS rank1_auctions,
       size(collect_set(auction) FILTER (WHERE price >= 10000 AND price < 1000000))
         AS rank2_auctions,
       size(collect_set(auction) FILTER (WHERE price >= 1000000)) AS rank3_auctions
FROM bid
GROUP BY channel, day;

-- q17: Auction statistics report: of each auction and day, how many bids, and their prices.
-- grows
INSERT INTO `nexmark.q17`
SELECT auction, date_format(date_time, 'yyyy-MM-dd') AS day,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS rank1_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       min(price) AS min_price, max(price) AS max_price,
       avg(price) AS avg_price, sum(price) AS sum_price
FROM bid
GROUP BY auction, day;

-- q18: Find last bid: of each bidder for each auction.
-- rewritten: `max_by` in place of `row_number()`
-- grows
INSERT INTO `nexmark.q18`
SELECT bidder, auction, max_by(struct(price, channel, url, date_time, extra), date_time) AS last
FROM bid
GROUP BY bidder, auction;

-- q19: Auction top ten price: the ten highest bids of each auction.
-- rewritten: `max_by(..., price, 10)` in place of `row_number()`
-- grows
INSERT INTO `nexmark.q19`
SELECT auction, max_by(struct(bidder, price, channel, url, date_time, extra), price, 10) AS top
FROM bid
GROUP BY auction;
