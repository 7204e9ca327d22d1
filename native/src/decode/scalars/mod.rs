//! Values that hold no others, a file for each family of types: how a value is read, and what is
//! wrong with one that was not taken.

pub mod decimals;
pub mod numbers;
pub mod strings;
pub mod times;
