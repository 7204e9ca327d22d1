//! JSON objects to Arrow, in one pass.
