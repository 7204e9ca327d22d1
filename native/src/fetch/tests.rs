//! Batches as clients and brokers make them, whole and damaged.

use std::collections::HashMap;

use proptest::prelude::*;

use super::batch::{Aborted, Batch, Raw, Unread, Unusable, reach};
use super::codecs::{Codecs, LIMIT_BYTES, Unpacked};
use super::in_flight::check_answer;
use super::leaders::Leaders;
use super::protocol::{self, API_VERSIONS, FETCH, METADATA, Named, Versions};
use super::ranges::{Range, Ranges};

const GZIP: i16 = 1;
const SNAPPY: i16 = 2;
const LZ4: i16 = 3;
const ZSTD: i16 = 4;
const CODECS: [i16; 5] = [0, GZIP, SNAPPY, LZ4, ZSTD];
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;

type MadeRecord = (i64, Option<Vec<u8>>, Option<Vec<u8>>); // offset delta, key, value

/// A batch that is to be made.
#[derive(Clone)]
struct Made {
    base: i64,
    attributes: i16,
    last_delta: i32,
    producer: i64,
    records: Vec<MadeRecord>,
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    varint(out, bytes.map_or(-1, |bytes| bytes.len() as i64));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn compress(codec: i16, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    match codec {
        GZIP => {
            let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            to.write_all(bytes).unwrap();
            to.finish().unwrap()
        }
        SNAPPY => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        LZ4 => {
            let mut to = lz4_flex::frame::FrameEncoder::new(Vec::new());
            to.write_all(bytes).unwrap();
            to.finish().unwrap()
        }
        ZSTD => {
            let mut to = vec![0; zstd_safe::compress_bound(bytes.len())];
            let size = zstd_safe::compress(&mut to[..], bytes, 3).unwrap();
            to.truncate(size);
            to
        }
        _ => bytes.to_vec(),
    }
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

impl Made {
    fn plain(base: i64, values: &[&str]) -> Self {
        let each = |(at, value): (i64, &&str)| (at, None, Some(value.as_bytes().to_vec()));
        Made {
            base,
            attributes: 0,
            last_delta: values.len() as i32 - 1,
            producer: -1,
            records: (0..).zip(values).map(each).collect(),
        }
    }

    fn of(mut self, producer: i64, attributes: i16) -> Self {
        self.producer = producer;
        self.attributes |= attributes;
        self
    }

    fn marker(base: i64, producer: i64, kind: u8) -> Self {
        let mut made = Made::plain(base, &["......"]).of(producer, TRANSACTIONAL | CONTROL);
        made.records[0].1 = Some(vec![0, 0, 0, kind]);
        made
    }

    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (delta, key, value) in &self.records {
            let mut record = vec![0];
            varint(&mut record, 7 * delta);
            varint(&mut record, *delta);
            nullable(&mut record, key.as_deref());
            nullable(&mut record, value.as_deref());
            varint(&mut record, 1);
            nullable(&mut record, Some(b"h"));
            nullable(&mut record, None);
            nullable(&mut body, Some(&record));
        }
        let body = compress(self.attributes & 7, &body);
        let mut out = self.base.to_be_bytes().to_vec();
        out.extend((49 + body.len() as i32).to_be_bytes());
        out.extend(5_i32.to_be_bytes()); // leader epoch
        out.push(2);
        out.extend([0; 4]);
        out.extend(self.attributes.to_be_bytes());
        out.extend(self.last_delta.to_be_bytes());
        out.extend(1_000_i64.to_be_bytes());
        out.extend(9_000_i64.to_be_bytes());
        out.extend(self.producer.to_be_bytes());
        out.extend([0; 6]);
        out.extend((self.records.len() as i32).to_be_bytes());
        out.extend(body);
        seal(out)
    }
}

type Row = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, usize);

fn row(record: &Raw<'_>) -> Row {
    let mut headers = 0;
    let count = record.each_header(|_, _| {
        headers += 1;
        Ok(())
    });
    assert_eq!(count.unwrap_or(headers), headers);
    let bytes = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
    (
        record.offset,
        record.time_ms,
        bytes(record.key),
        bytes(record.value),
        headers,
    )
}

/// Read all that is committed, as a reading does.
fn read(bytes: &[u8], aborted: Vec<(i64, i64)>) -> Result<Vec<Row>, Unread> {
    let complete = reach(bytes, 0)?.bytes;
    let (mut at, mut rows) = (0, Vec::new());
    let (mut aborted, mut codecs) = (Aborted::new(aborted), Codecs::new(LIMIT_BYTES));
    while let Some((batch, size)) = Batch::first(&bytes[at..complete])? {
        let mut of_batch = Vec::new();
        aborted
            .committed(&batch, &mut codecs, |record| {
                of_batch.push(row(&record));
                Ok(())
            })
            .map_err(|error| match error {
                Unusable::Damaged(error) => Unread::from(error),
                Unusable::TooLarge(offsets) => panic!("{offsets:?} are too large"),
            })?;
        rows.extend(of_batch);
        at += size;
    }
    Ok(rows)
}

fn offsets(bytes: &[u8], aborted: Vec<(i64, i64)>) -> Vec<i64> {
    read(bytes, aborted)
        .unwrap()
        .iter()
        .map(|row| row.0)
        .collect()
}

#[test]
fn every_codec_gives_the_same_records() {
    let text = "a value that repeats itself ".repeat(5_000);
    for codec in CODECS {
        let mut made = Made::plain(40, &["first", &text, ""]).of(-1, codec);
        made.records.push((9, Some(b"key".to_vec()), None));
        made.last_delta = 12; // compaction keeps what a batch spans
        let rows = read(&made.bytes(), vec![]).unwrap();
        let wanted = vec![
            (40, 1_000, None, Some(b"first".to_vec()), 1),
            (41, 1_007, None, Some(text.clone().into_bytes()), 1),
            (42, 1_014, None, Some(vec![]), 1),
            (49, 1_063, Some(b"key".to_vec()), None, 1),
        ];
        assert_eq!(rows, wanted, "codec {codec}");
        assert_eq!(reach(&made.bytes(), 0).unwrap().next, 53);
    }
}

#[test]
fn snappy_is_read_as_javas_stream_frames_it() {
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in [&b"one block, "[..], b"and another"] {
        let packed = compress(SNAPPY, block);
        framed.extend((packed.len() as u32).to_be_bytes());
        framed.extend(packed);
    }
    let mut codecs = Codecs::new(LIMIT_BYTES);
    assert_eq!(
        codecs.decompress(SNAPPY, &framed).unwrap(),
        b"one block, and another"
    );
    assert!(
        codecs
            .decompress(SNAPPY, &framed[..framed.len() - 1])
            .is_err()
    );
}

#[test]
fn lz4_is_read_in_every_shape_of_frame() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;
    let bytes = "linked or not, with checksums or without. ".repeat(20_000);
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        for sums in [false, true] {
            let info = FrameInfo::new()
                .block_mode(mode)
                .block_size(BlockSize::Max64KB)
                .block_checksums(sums)
                .content_checksum(sums)
                .content_size(sums.then_some(bytes.len() as u64));
            let mut to = FrameEncoder::with_frame_info(info, Vec::new());
            to.write_all(bytes.as_bytes()).unwrap();
            let packed = to.finish().unwrap();
            let mut codecs = Codecs::new(LIMIT_BYTES);
            assert_eq!(codecs.decompress(LZ4, &packed).unwrap(), bytes.as_bytes());
            assert!(codecs.decompress(LZ4, &packed[..packed.len() / 2]).is_err());
        }
    }
}

#[test]
fn a_time_of_the_broker_is_that_of_its_batch() {
    let made = Made::plain(0, &["a", "b"]).of(-1, 8);
    let times: Vec<_> = read(&made.bytes(), vec![])
        .unwrap()
        .iter()
        .map(|row| row.1)
        .collect();
    assert_eq!(times, [9_000, 9_000]);
}

#[test]
fn aborted_transactions_and_markers_are_left_out() {
    let batches = [
        Made::plain(0, &["plain"]),
        Made::plain(1, &["aborted", "aborted"]).of(7, TRANSACTIONAL),
        Made::plain(3, &["of another producer"]).of(8, TRANSACTIONAL),
        Made::plain(4, &["no transaction, same producer"]).of(7, 0),
        Made::marker(5, 7, 0),
        Made::plain(6, &["the next transaction of the first"]).of(7, TRANSACTIONAL),
        Made::marker(7, 7, 1),
        Made::marker(8, 8, 1),
        Made::plain(9, &["aborted again"]).of(7, TRANSACTIONAL),
    ];
    let bytes: Vec<u8> = batches.iter().flat_map(Made::bytes).collect();
    assert_eq!(offsets(&bytes, vec![(7, 1), (7, 9)]), [0, 3, 4, 6]);
    assert_eq!(reach(&bytes, 0).unwrap().next, 10);
    // A transaction that began before what was fetched.
    assert_eq!(offsets(&bytes, vec![(8, -5), (7, 9)]), [0, 1, 2, 4, 6]);
}

#[test]
fn an_empty_batch_that_compaction_left_is_passed() {
    let mut empty = Made::plain(10, &[]);
    empty.last_delta = 89;
    let mut marker = Made::marker(100, 3, 0);
    marker.records.clear();
    let bytes = [empty.bytes(), marker.bytes()].concat();
    assert_eq!(read(&bytes, vec![]), Ok(vec![]));
    assert_eq!(reach(&bytes, 10).unwrap().next, 101);
}

#[test]
fn a_batch_that_is_cut_off_is_not_read() {
    let whole = Made::plain(0, &["a", "b"]).bytes();
    let bytes = [whole.clone(), Made::plain(2, &["c"]).bytes()].concat();
    for size in whole.len()..bytes.len() {
        let found = reach(&bytes[..size], 0).unwrap();
        assert_eq!((found.next, found.bytes), (2, whole.len()));
        assert_eq!(offsets(&bytes[..size], vec![]), [0, 1]);
    }
}

#[test]
fn an_older_format_is_told() {
    let mut bytes = Made::plain(0, &["a"]).bytes();
    for magic in [0, 1] {
        bytes[16] = magic;
        assert_eq!(reach(&bytes, 0), Err(Unread::Format(magic.cast_signed())));
    }
}

#[test]
fn every_damaged_byte_behind_the_crc_is_noticed() {
    for codec in CODECS {
        let bytes = Made::plain(3, &["some", "records", "here"])
            .of(-1, codec)
            .bytes();
        let good = read(&bytes, vec![]).unwrap();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                match read(&damaged, vec![]) {
                    // The base offset and the leader epoch are before the CRC, as in every client;
                    // a length that is too long is a batch that is not complete.
                    Ok(rows) if at < 8 => {
                        assert!(rows.iter().zip(&good).all(|(row, was)| row.3 == was.3));
                    }
                    Ok(rows) if (8..12).contains(&at) => assert!(rows.is_empty()),
                    Ok(rows) => assert!((12..16).contains(&at) && rows == good, "byte {at}"),
                    Err(_) => {}
                }
            }
        }
    }
}

#[test]
fn records_that_do_not_fill_their_batch_in_order_are_refused() {
    let refused = |change: fn(&mut Made)| {
        let mut made = Made::plain(0, &["a", "b", "c"]);
        change(&mut made);
        assert!(read(&made.bytes(), vec![]).is_err());
    };
    refused(|made| made.records[1].0 = 0); // twice
    refused(|made| made.records[2].0 = 1);
    refused(|made| made.records[2].0 = 3); // beyond what the batch spans
    refused(|made| made.records[0].0 = -1);
    let count_at = 57;
    for count in [-1_i32, 0, 2, 4, i32::MAX] {
        let mut bytes = Made::plain(0, &["a", "b", "c"]).bytes();
        bytes[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
        assert!(read(&seal(bytes), vec![]).is_err(), "{count} records");
    }
}

#[test]
fn batches_out_of_order_are_refused() {
    let bytes = [
        Made::plain(5, &["a"]).bytes(),
        Made::plain(5, &["b"]).bytes(),
    ]
    .concat();
    assert!(matches!(reach(&bytes, 0), Err(Unread::Damaged(_))));
}

/// What is promised beyond what is there reserves nothing: this ends at once, in little memory.
#[test]
fn a_promise_of_much_reserves_little() {
    let mut codecs = Codecs::new(LIMIT_BYTES);
    let snappy_of_4_gib = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    assert!(codecs.decompress(SNAPPY, &snappy_of_4_gib).is_err());
    let zeros = vec![0; 8 << 20];
    for codec in [GZIP, SNAPPY, LZ4, ZSTD] {
        let packed = compress(codec, &zeros);
        assert_eq!(
            codecs.decompress(codec, &packed).unwrap().len(),
            zeros.len()
        );
        assert!(
            codecs
                .decompress(codec, &packed[..packed.len() / 2])
                .is_err(),
            "codec {codec}"
        );
    }
}

/// What becomes one byte more than the limit is too large, of each codec; what fills it is not.
#[test]
fn a_batch_may_fill_its_limit_and_not_exceed_it() {
    for size in [1_000, 300_000, 5 << 20] {
        let (fits, exceeds) = (vec![0; size], vec![0; size + 1]);
        for codec in CODECS {
            let mut codecs = Codecs::new(size);
            let packed = compress(codec, &fits);
            assert_eq!(codecs.unpack(codec, &packed).map(<[u8]>::len), Ok(size));
            let packed = compress(codec, &exceeds);
            assert_eq!(codecs.unpack(codec, &packed), Err(Unpacked::TooLarge));
            let packed = compress(codec, &fits);
            assert_eq!(codecs.unpack(codec, &packed).map(<[u8]>::len), Ok(size));
        }
    }
}

/// Of a bomb no more is held than the limit, and its offsets are named: all that its batch spans.
#[test]
fn a_batch_that_becomes_too_large_names_its_offsets() {
    let text = "0".repeat(64 << 20);
    for codec in [GZIP, LZ4, ZSTD] {
        let made = Made::plain(7, &["a", &text, "c"]).of(-1, codec).bytes();
        let (batch, _) = Batch::first(&made).unwrap().unwrap();
        let mut codecs = Codecs::new(1 << 20);
        let read = Aborted::new(vec![]).committed(&batch, &mut codecs, |_| Ok(()));
        assert_eq!(read, Err(Unusable::TooLarge(7..10)), "codec {codec}");
        assert!(
            codecs.room_bytes() <= (1 << 20) + (4 << 20),
            "codec {codec}"
        );
    }
}

proptest! {
    /// Any record survives any codec.
    #[test]
    fn records_are_read_as_they_were_written(
        records in proptest::collection::vec(
            (1_i64..50, proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
             proptest::option::of(proptest::collection::vec(any::<u8>(), 0..400))), 0..40),
        base in 0_i64..1 << 60,
        codec in 0_usize..5,
    ) {
        let mut delta = -1;
        let records: Vec<_> = records.into_iter().map(|(step, key, value)| {
            delta += step;
            (delta, key, value)
        }).collect();
        let last_delta = delta.max(0) as i32;
        let attributes = CODECS[codec];
        let made = Made { base, attributes, last_delta, producer: -1, records };
        let rows = read(&made.bytes(), vec![]).unwrap();
        let wanted: Vec<Row> = made.records.iter().map(|(delta, key, value)|
            (base + delta, 1_000 + 7 * delta, key.clone(), value.clone(), 1)).collect();
        prop_assert_eq!(rows, wanted);
    }

    /// Damage behind a CRC that was made to agree: an error or records within the batch, no panic.
    #[test]
    fn damage_with_a_good_crc_ends_in_an_error_or_in_records_of_the_batch(
        at in 0_usize..4_000, flip in 1_u8..=255, cut in 0_usize..40, codec in 0_usize..5,
    ) {
        let text = "abcdefgh".repeat(60);
        let mut bytes = Made::plain(3, &["some", &text, "here"]).of(-1, CODECS[codec]).bytes();
        bytes.truncate(bytes.len() - cut.min(bytes.len() - 61));
        let size = bytes.len() as i32 - 12;
        bytes[8..12].copy_from_slice(&size.to_be_bytes());
        let at = 21 + at % (bytes.len() - 21);
        bytes[at] ^= flip;
        if let Ok(rows) = read(&seal(bytes), vec![(0, 0)]) {
            prop_assert!(rows.windows(2).all(|two| two[0].0 < two[1].0));
        }
    }

    /// Any bytes: an error or an answer, no panic.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = reach(&bytes, 0);
        for codec in 0..6 {
            let _ = Codecs::new(LIMIT_BYTES).decompress(codec, &bytes);
        }
        for version in 11..=16 {
            let _ = protocol::read_fetch(&bytes, 0, version);
        }
        for version in 9..=12 {
            let _ = protocol::read_metadata(&bytes, 0, version);
        }
        let _ = protocol::read_versions(&bytes, 0);
        let _ = protocol::read_epochs(&bytes, 0);
    }
}

/// Answers of a real broker: name of the file, request, version.
const ANSWERS: [(&str, &[u8], i16, i16); 6] = [
    (
        "fetch-11",
        include_bytes!("../../tests/answers/fetch-11.bin"),
        FETCH,
        11,
    ),
    (
        "fetch-12",
        include_bytes!("../../tests/answers/fetch-12.bin"),
        FETCH,
        12,
    ),
    (
        "fetch-16",
        include_bytes!("../../tests/answers/fetch-16.bin"),
        FETCH,
        16,
    ),
    (
        "metadata-9",
        include_bytes!("../../tests/answers/metadata-9.bin"),
        METADATA,
        9,
    ),
    (
        "metadata-12",
        include_bytes!("../../tests/answers/metadata-12.bin"),
        METADATA,
        12,
    ),
    (
        "versions",
        include_bytes!("../../tests/answers/versions.bin"),
        API_VERSIONS,
        0,
    ),
];

/// Read an answer as a reading does, down to the records; None: it is refused.
fn read_answer(bytes: &[u8], api: i16, version: i16) -> Option<Vec<Row>> {
    match api {
        API_VERSIONS => {
            protocol::read_versions(bytes, 1).ok()?.ok()?;
            Some(vec![])
        }
        METADATA => {
            let found = protocol::read_metadata(bytes, 1, version).ok()?;
            let count = found
                .topics
                .iter()
                .map(|each| each.partitions.len())
                .sum::<usize>();
            Some(vec![(count as i64, 0, None, None, 0)])
        }
        _ => {
            let found = protocol::read_fetch(bytes, 1, version).ok()?;
            let mut rows = Vec::new();
            for each in found.partitions {
                rows.extend(read(&bytes[each.records], each.aborted).ok()?);
            }
            Some(rows)
        }
    }
}

#[test]
fn answers_of_a_real_broker_are_read() {
    for (name, bytes, api, version) in ANSWERS {
        let rows = read_answer(bytes, api, version).expect(name);
        match api {
            // Two partitions: all codecs with an aborted transaction between, and one record.
            FETCH => {
                let values: Vec<_> = rows.iter().map(|row| row.3.clone().unwrap()).collect();
                let wanted: Vec<_> = ["none", "gzip", "snappy", "lz4", "zstd", "last", "other"]
                    .iter()
                    .map(|name| name.as_bytes().to_vec())
                    .collect();
                assert_eq!(values, wanted, "{name}");
            }
            METADATA => assert_eq!(rows[0].0, 2, "{name}"),
            _ => {
                let spoken = protocol::read_versions(bytes, 1).unwrap();
                assert_eq!(
                    spoken,
                    Ok(Versions {
                        fetch: 16,
                        metadata: 12,
                        has_epoch_ends: true
                    })
                );
            }
        }
    }
}

#[test]
fn every_byte_of_a_real_answer_may_be_damaged() {
    for (name, bytes, api, version) in ANSWERS {
        let good = read_answer(bytes, api, version).expect(name);
        for at in 0..bytes.len() {
            let _ = read_answer(&bytes[..at], api, version);
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= flip;
                let Some(rows) = read_answer(&damaged, api, version) else {
                    continue;
                };
                if api == FETCH {
                    // No CRC covers the list of aborted transactions; batches are as they were.
                    let was_there = |row: &Row| {
                        row.3.as_deref() == Some(b"aborted")
                            || good.iter().any(|was| was.3 == row.3)
                    };
                    assert!(rows.iter().all(was_there), "{name}: {at}");
                }
            }
        }
    }
}

#[test]
fn a_damaged_partition_of_an_answer_advances_no_other() {
    let (_, bytes, _, version) = ANSWERS[0]; // by names of topics
    let answer = protocol::read_fetch(bytes, 1, version).unwrap();
    let wanted = answer.partitions.iter().map(|each| Range {
        topic: match &each.topic {
            Named::Name(name) => name.clone(),
            Named::Id(id) => panic!("{id:?}"),
        },
        partition: each.partition,
        start: 0,
        end: 1,
    });
    let wanted: Vec<_> = wanted.collect();
    let mut damaged = bytes.to_vec();
    damaged[answer.partitions[1].records.start + 8] = 0x7f; // a batch longer than the answer
    for (bytes, is_good) in [(bytes, true), (&damaged[..], false)] {
        let mut ranges = Ranges::arrange(&wanted, &[], &HashMap::new(), 100);
        let mut leaders = Leaders::new(vec![]);
        let found = check_answer(answer.clone(), &[0, 1], bytes, &mut ranges, &mut leaders);
        assert_eq!(found.is_ok_and(|found| found.len() == 2), is_good);
        assert!(ranges.all.iter().all(|range| range.fetched == 0));
    }
}
