-- A topic: in SQL it is `clicks`. It is only read here; without `land` it would fill its table too.
CREATE TABLE ods.clicks (id BIGINT, country STRING, ts BIGINT)
OPTIONS (topic = 'clicks', event_time.column = 'ts', late.after = '1m', land = false, on_invalid = 'drop');

-- A table that the INSERT fills.
CREATE TABLE ods.clicks_by_minute (minute TIMESTAMP, country STRING, clicks BIGINT)
USING parquet
PARTITIONED BY (date)
OPTIONS (event_time.column = 'minute');

INSERT INTO ods.clicks_by_minute
SELECT window.start AS minute, country, count(*) AS clicks
FROM clicks GROUP BY window(event_time, '1 minute'), country;
