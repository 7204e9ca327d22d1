//! Arrow's buffers while they are filled, one value after the other.
//!
//! A record that turns out to be bad is taken back by cutting all of them to the rows before it.

use std::mem::{replace, take};

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;

/// Values of one type, or of a column of any type. For a null there is a value too, which means
/// nothing.
pub trait Buffers {
    /// How many values there are.
    fn len(&self) -> usize;

    /// Append the value of a null.
    fn push_null(&mut self);

    /// Keep the first `count` values. There are as many, or more.
    fn truncate(&mut self, count: usize);

    /// Make room for more values, if they are like those that there are.
    fn make_room(&mut self, growth: Growth);

    /// Move the values to an array of Arrow: as buffers, or a column as a child.
    fn move_to(&mut self, array: ArrayDataBuilder) -> ArrayDataBuilder;
}

/// How many rows there are, and how many like them are expected.
#[derive(Clone, Copy)]
pub struct Growth {
    /// What is there; not 0.
    pub from: usize,
    /// What comes.
    pub by: usize,
}

impl<T: ArrowNativeType> Buffers for Vec<T> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn push_null(&mut self) {
        self.push(T::default());
    }

    fn truncate(&mut self, count: usize) {
        Vec::truncate(self, count);
    }

    fn make_room(&mut self, growth: Growth) {
        let more = Vec::len(self).saturating_mul(growth.by) / growth.from;
        self.reserve_exact(more + more / 16); // rows are not quite alike
    }

    fn move_to(&mut self, array: ArrayDataBuilder) -> ArrayDataBuilder {
        array.add_buffer(Buffer::from_vec(take(self)))
    }
}

/// Values of several items each: where each begins, and the items of all.
#[derive(Debug, PartialEq)]
pub struct Runs<T> {
    offsets: Vec<i32>, // one more than there are values
    /// The items of all values, one after the other.
    pub items: T,
}

/// Texts, or bytes.
pub type Bytes = Runs<Vec<u8>>;

impl<T: Buffers> Runs<T> {
    /// No values, of such items.
    pub fn new(items: T) -> Self {
        let offsets = vec![0];
        Runs { offsets, items }
    }

    /// End the value that the items end with.
    #[inline(always)]
    pub fn end_value(&mut self) {
        // A block is bounded so that its bytes can be counted in 31 bits (`Decoder::decode`).
        self.offsets.push(self.items.len() as i32);
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::new(Vec::new())
    }
}

impl Bytes {
    /// The values from one on.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        let edges = self.offsets[first..].windows(2);
        edges.map(|edge| &self.items[edge[0] as usize..edge[1] as usize])
    }
}

impl<T: Buffers> Buffers for Runs<T> {
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn push_null(&mut self) {
        self.end_value();
    }

    fn truncate(&mut self, count: usize) {
        self.offsets.truncate(count + 1);
        self.items.truncate(self.offsets[count] as usize);
    }

    fn make_room(&mut self, growth: Growth) {
        self.offsets.make_room(growth);
        self.items.make_room(growth);
    }

    fn move_to(&mut self, array: ArrayDataBuilder) -> ArrayDataBuilder {
        let offsets = replace(&mut self.offsets, vec![0]);
        self.items
            .move_to(array.add_buffer(Buffer::from_vec(offsets)))
    }
}

/// Which values of a column are null; nothing is kept while none is.
#[derive(Default)]
pub struct Validity {
    flags: Option<Vec<u8>>,
}

impl Validity {
    /// Note that the next value is not null.
    #[inline(always)]
    pub fn push_valid(&mut self) {
        if let Some(flags) = &mut self.flags {
            flags.push(1);
        }
    }

    /// Note that the next value, the `count`th from 0, is null.
    pub fn push_null(&mut self, count: usize) {
        self.flags.get_or_insert_with(|| vec![1; count]).push(0);
    }

    /// Keep what is known of the first `count` values.
    pub fn truncate(&mut self, count: usize) {
        if let Some(flags) = &mut self.flags {
            flags.truncate(count);
        }
    }

    /// Take them as Arrow has them, for a column of `count` values.
    pub fn take(&mut self, count: usize) -> Option<NullBuffer> {
        let flags = self.flags.take()?;
        assert_eq!(
            flags.len(),
            count,
            "a column has more or less flags than values"
        );
        let nulls = NullBuffer::new(pack(&flags));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

/// A bit for each flag.
pub fn pack(flags: &[u8]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(flags.len(), |row| flags[row] != 0)
}
