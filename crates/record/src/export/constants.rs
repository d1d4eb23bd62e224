//! Columns in which all rows have the same value.
//!
//! Many columns are like that: the host, the target, what a record never has. Their batches share
//! one piece of memory, so a large table needs less than it shows.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};

/// The most values that are kept.
const MOST: usize = 16;

/// The memory of a stream's constant columns, each with the size of its value.
#[derive(Debug, Clone, Default)]
pub(super) struct Constants(Arc<Mutex<Vec<(usize, Buffer)>>>);

impl Constants {
    /// The column; in shared memory if all of its values are the same to the last bit.
    pub(super) fn share<T: ArrowNativeType>(&self, values: Vec<T>) -> ScalarBuffer<T> {
        let (len, buffer) = (values.len(), Buffer::from_vec(values));
        let (bytes, size) = (buffer.as_slice(), size_of::<T>());
        if len < 2 || bytes[size..] != bytes[..bytes.len() - size] {
            return buffer.into();
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(of, b): &(usize, Buffer)| *of == size && b.starts_with(&bytes[..size]);
        match known.iter().position(is_same) {
            Some(nr) if known[nr].1.len() >= bytes.len() => {
                return ScalarBuffer::new(known[nr].1.clone(), 0, len);
            }
            Some(nr) => known[nr].1 = buffer.clone(),
            None if known.len() < MOST => known.push((size, buffer.clone())),
            None => {}
        }
        buffer.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_memory() {
        let constants = Constants::default();
        let at = |values: Vec<u32>| {
            let column = constants.share(values.clone());
            assert_eq!(column[..], values);
            column.inner().as_ptr()
        };
        let first = at(vec![7; 100]);
        assert_eq!(at(vec![7; 60]), first, "a shorter column is a part of it");
        assert_ne!(at(vec![8; 60]), first, "another value");
        assert_ne!(at([vec![7; 59], vec![8]].concat()), first, "one other value");
        let longer = at(vec![7; 101]);
        assert_ne!(longer, first);
        assert_eq!(at(vec![7; 100]), longer, "the longest is kept");
        assert_eq!(constants.share(vec![7_u64; 9])[..], [7; 9], "a value of another size");
        assert_eq!(constants.share(vec![0.0_f32, -0.0])[1].to_bits(), (-0.0_f32).to_bits());
        assert_eq!(constants.share(Vec::<u64>::new()).len(), 0);
    }
}
