//! Values that hold others, over any [`element::Element`]: the column of a schema.

pub mod element;
pub mod lists;
pub mod maps;
pub mod objects;
