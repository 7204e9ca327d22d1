//! Values that are no rows, as columns: where each stood, and why. Few reasons are met often.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Fields};

use super::column::Bytes;
use super::keys::hash;
use super::reason::{Common, Reason};

/// The values of a call that are no rows, ascending.
#[derive(Default)]
pub struct BadValues {
    indices: Vec<i64>,
    codes: Vec<i32>, // of their reasons; NONE: it is not known
    reasons: Reasons,
    known: Known,
}

const NONE: i32 = -1;
/// A reason is told to so many letters.
const REASON_MAX: usize = 200;
/// In so many places of the table a text is looked for.
const PLACES: usize = 32;

/// Codes of common reasons, by what they are: without a look at their words.
#[derive(Default)]
struct Known {
    places: Vec<(u64, i32)>, // by the identity of a reason; none, or KNOWN
}

/// So many common reasons may be known, unless two have the same place.
const KNOWN: usize = 256;

impl Known {
    /// The code of a common reason; of one that is not known, that which is found.
    fn code_of(&mut self, common: Common, find: impl FnOnce() -> i32) -> i32 {
        if self.places.is_empty() {
            self.places = vec![(0, NONE); KNOWN];
        }
        let id = common.id();
        let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = &mut self.places[(spread >> 56) as usize];
        if place.0 == id {
            return place.1;
        }
        *place = (id, find());
        place.1
    }
}

/// Texts by number; nearly all differ.
#[derive(Default)]
struct Reasons {
    texts: Bytes,
    table: Vec<i32>, // of numbers, by the hash of their texts; at most a quarter full
}

impl Reasons {
    fn get(&self, number: i32) -> &[u8] {
        self.texts.get(number as usize)
    }

    /// The number of a text, which is new or known; new as well where others that hash alike have
    /// taken all its places.
    fn number_of(&mut self, reason: &[u8]) -> i32 {
        let reason = shortened(reason);
        if 4 * self.texts.len() >= self.table.len() {
            self.grow();
        }
        let slot = self.slot_of(reason);
        if let Some(slot) = slot
            && self.table[slot] != NONE
        {
            return self.table[slot];
        }
        let number = self.push(reason);
        if let Some(slot) = slot {
            self.table[slot] = number;
        }
        number
    }

    fn push(&mut self, reason: &[u8]) -> i32 {
        self.texts.data.extend_from_slice(reason);
        assert!(
            self.texts.data.len() <= i32::MAX as usize,
            "2 GB of reasons"
        );
        self.texts.end_value();
        self.texts.len() as i32 - 1
    }

    /// Where a text has its number, or would have it; None: all its places have those of others.
    ///
    /// Texts quote what producers wrote, who may make many that hash alike: these become reasons
    /// of their own, which costs room, not a search among all of them.
    fn slot_of(&self, reason: &[u8]) -> Option<usize> {
        let first = hash(reason);
        let mut slots = (0..PLACES).map(|more| first.wrapping_add(more) & (self.table.len() - 1));
        let is_its =
            |slot: &usize| self.table[*slot] == NONE || self.get(self.table[*slot]) == reason;
        slots.find(is_its)
    }

    #[cold]
    fn grow(&mut self) {
        self.table = vec![NONE; (8 * self.texts.len()).next_power_of_two().max(64)];
        for number in 0..self.texts.len() as i32 {
            if let Some(slot) = self.slot_of(self.get(number)) {
                self.table[slot] = number;
            }
        }
    }

    /// As Arrow has them: a text for each of some codes.
    fn by(mut self, codes: Vec<i32>) -> ArrayData {
        let build = |kind: DataType, len| ArrayData::builder(kind).len(len);
        let texts = build(DataType::Utf8, self.texts.len());
        let (starts, data) = self.texts.take();
        simdutf8::basic::from_utf8(&data).expect("a reason is no text");
        let texts = texts.add_buffer(starts).add_buffer(data);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let coded = build(dictionary, codes.len()).add_buffer(Buffer::from_vec(codes));
        // SAFETY: a code is the number of a reason; all are text, and each ends where a letter ends.
        unsafe {
            coded
                .add_child_data(texts.build_unchecked())
                .build_unchecked()
        }
    }
}

impl BadValues {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The values by their numbers, and why each is bad; None: `JsonDecoder` knows, and it may be a
    /// row after all.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Option<&str>)> {
        let pairs = self.indices.iter().zip(&self.codes);
        let words = |code| str::from_utf8(self.reasons.get(code)).unwrap_or_default();
        pairs.map(move |(index, code)| {
            let reason = (*code != NONE).then(|| words(*code));
            (*index as usize, reason)
        })
    }

    /// Append a value, and why it is bad, of records of these columns.
    pub(super) fn push(&mut self, index: usize, reason: Reason<'_>, fields: &Fields) {
        let code = match reason {
            Reason::Common(common) => self.known.code_of(common, || {
                self.reasons.number_of(common.words(fields).as_bytes())
            }),
            Reason::Words(words) => self.reasons.number_of(words),
            Reason::Unknown => NONE,
        };
        self.indices.push(index as i64);
        self.codes.push(code);
    }

    /// What is said of the values of a call, of which there are `count`.
    pub fn into_verdicts(self, count: usize) -> Verdicts {
        let good = integers(self.good_of(count));
        let is_known = |code: &i32| *code != NONE;
        let pairs = || self.indices.iter().zip(&self.codes);
        if self.codes.iter().all(is_known) {
            return Verdicts {
                good,
                bad: integers(self.indices),
                reasons: self.reasons.by(self.codes),
                asked: None,
            };
        }
        let asked = pairs().filter(|(_, code)| !is_known(code));
        let asked = asked.map(|(index, _)| *index).collect();
        let (bad, codes) = pairs().filter(|(_, code)| is_known(code)).unzip();
        Verdicts {
            good,
            bad: integers(bad),
            reasons: self.reasons.by(codes),
            asked: Some(integers(asked)),
        }
    }

    /// 0 to `count` without the values that are here.
    fn good_of(&self, count: usize) -> Vec<i64> {
        let mut good = Vec::with_capacity(count - self.len());
        let mut next = 0;
        for bad in &self.indices {
            good.extend(next..*bad);
            next = bad + 1;
        }
        good.extend(next..count as i64);
        good
    }
}

/// A reason, which is text in UTF-8, as it is told.
fn shortened(reason: &[u8]) -> &[u8] {
    if reason.len() <= REASON_MAX {
        return reason;
    }
    if reason[..REASON_MAX].is_ascii() {
        return &reason[..REASON_MAX];
    }
    let is_start = |(_, byte): &(usize, &u8)| **byte & 0xc0 != 0x80;
    let mut letters = reason.iter().enumerate().filter(is_start);
    let end = letters.nth(REASON_MAX).map_or(reason.len(), |(at, _)| at);
    &reason[..end]
}

/// The values of a call, by their numbers, ascending.
pub struct Verdicts {
    /// Those that are rows.
    pub good: ArrayData,
    /// Those that are none.
    pub bad: ArrayData,
    /// Why each of these is none: a dictionary.
    pub reasons: ArrayData,
    /// Those that `JsonDecoder` is to be asked of, which knows why they are none, or that they are;
    /// None: there are none.
    pub asked: Option<ArrayData>,
}

fn integers(values: Vec<i64>) -> ArrayData {
    let builder = ArrayData::builder(DataType::Int64).len(values.len());
    // SAFETY: the buffer has as many integers.
    unsafe {
        builder
            .add_buffer(Buffer::from_vec(values))
            .build_unchecked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that begin at the same place of every table here.
    fn alike(count: usize) -> Vec<String> {
        let texts = (0..).map(|number| format!("Column(/a{number}) was specified twice"));
        let is_alike = |text: &String| hash(text.as_bytes()) % 1024 == 7;
        texts.filter(is_alike).take(count).collect()
    }

    #[test]
    fn a_number_is_that_of_its_text_whatever_hashes_alike() {
        let texts = alike(2 * PLACES);
        let mut reasons = Reasons::default();
        for text in texts.iter().chain(&texts) {
            let number = reasons.number_of(text.as_bytes());
            assert_eq!(reasons.get(number), text.as_bytes());
        }
        assert!(reasons.table.len() <= 1024);
    }

    #[test]
    fn texts_that_hash_alike_are_not_compared_with_all_others() {
        let texts = alike(2 * PLACES);
        let mut reasons = Reasons::default();
        let mut numbers_of = |texts: &[String]| -> Vec<i32> {
            texts
                .iter()
                .map(|text| reasons.number_of(text.as_bytes()))
                .collect()
        };
        let (first, again) = (numbers_of(&texts), numbers_of(&texts));
        assert_eq!(first[..PLACES], again[..PLACES]);
        assert!(
            first[PLACES..]
                .iter()
                .zip(&again[PLACES..])
                .all(|(a, b)| a != b)
        );
    }
}
