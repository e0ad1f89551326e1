//! Byte strings that share an allocation: a device link can name a hundred thousand units, and each has an id and a member's name.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Immutable bytes, cheap to clone. Equal, ordered and hashed as the slice that they are.
#[derive(Clone)]
pub struct SharedBytes {
    all: Arc<Vec<u8>>,
    start: u32,
    end: u32,
}

impl SharedBytes {
    /// No bytes.
    pub fn new() -> Self {
        static NONE: OnceLock<Arc<Vec<u8>>> = OnceLock::new();
        Self { all: NONE.get_or_init(Arc::default).clone(), start: 0, end: 0 }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.all[self.start as usize..self.end as usize]
    }

    /// Moves them all into one allocation, which stays as long as one of them does.
    pub fn join(mut strings: Vec<&mut Self>) {
        let total = strings.iter().map(|s| s.len()).sum();
        // Positions are 32 bits: where that is too little, they stay as they are.
        if u32::try_from(total).is_err() {
            return;
        }
        let mut all = Vec::with_capacity(total);
        for string in &strings {
            all.extend_from_slice(string);
        }
        let all = Arc::new(all);
        let mut start = 0;
        for string in &mut strings {
            let end = start + (string.end - string.start);
            **string = Self { all: all.clone(), start, end };
            start = end;
        }
    }
}

impl Default for SharedBytes {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Vec<u8>> for SharedBytes {
    /// # Panics
    /// At 4 GiB, which no id or name has: the reader believes no section of that size.
    fn from(bytes: Vec<u8>) -> Self {
        let end = u32::try_from(bytes.len()).expect("a string under 4 GiB");
        Self { all: Arc::new(bytes), start: 0, end }
    }
}

impl From<&[u8]> for SharedBytes {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<&str> for SharedBytes {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for SharedBytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SharedBytes {}

impl PartialOrd for SharedBytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedBytes {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for SharedBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_strings_stay_what_they_were_and_share_their_bytes() {
        let texts = ["_0a_4_u_cu_0", "", "member.o", "_0a_4_u_cu_0"];
        let mut strings: Vec<SharedBytes> = texts.iter().map(|t| SharedBytes::from(*t)).collect();
        let before = strings.clone();
        SharedBytes::join(strings.iter_mut().collect());
        assert_eq!(strings, before);
        assert!(strings.iter().all(|s| Arc::ptr_eq(&s.all, &strings[0].all)));
        assert_eq!(strings[0].all.len(), texts.concat().len());
        assert_eq!(size_of::<Option<SharedBytes>>(), 16);
    }
}
