//! Conditions on a record's headers, asked before anything of the record is copied.

use memchr::memmem;

use crate::header::Headers;

/// What is asked of the headers of one key. A key may repeat: one header of it is enough, or one too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderTest {
    /// There is one.
    Present,
    /// There is none.
    Absent,
    /// There is one with this value; `None` is null.
    Is(Option<Vec<u8>>),
    /// There is none with this value; there need not be one at all.
    IsNot(Option<Vec<u8>>),
}

/// One condition; keys are compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderCondition {
    /// The header's key.
    pub key: Vec<u8>,
    /// What is asked of it.
    pub test: HeaderTest,
}

impl HeaderCondition {
    /// Whether a record with these headers meets it.
    #[must_use]
    pub fn holds(&self, headers: Headers<'_>) -> bool {
        let mut own = headers.iter().filter(|header| header.key == self.key);
        match &self.test {
            HeaderTest::Present => own.next().is_some(),
            HeaderTest::Absent => own.next().is_none(),
            HeaderTest::Is(value) => own.any(|header| header.value == value.as_deref()),
            HeaderTest::IsNot(value) => own.all(|header| header.value != value.as_deref()),
        }
    }

    /// Whether a record without headers cannot meet it.
    pub(super) const fn needs_headers(&self) -> bool {
        matches!(self.test, HeaderTest::Present | HeaderTest::Is(_))
    }

    /// Whether any record in these bytes may meet it: key and value lie in them as they are, in every format.
    pub(super) fn may_occur(&self, bytes: &[u8]) -> bool {
        let value = match &self.test {
            HeaderTest::Is(Some(value)) => value.as_slice(),
            HeaderTest::Is(None) | HeaderTest::Present => &[],
            HeaderTest::Absent | HeaderTest::IsNot(_) => return true,
        };
        // The longer one is the rarer one, mostly: keys are the same all over a log.
        let needle = if value.len() >= self.key.len().min(4) { value } else { &self.key };
        memmem::find(bytes, needle).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Header, HeaderLayout};

    fn of(key: &str, test: HeaderTest) -> HeaderCondition {
        HeaderCondition { key: key.into(), test }
    }

    #[test]
    fn one_header_of_many_is_enough_or_one_too_many() {
        for layout in [HeaderLayout::Varint, HeaderLayout::Framed] {
            let mut bytes = Vec::new();
            for (key, value) in [("a", Some(&b"1"[..])), ("a", Some(b"2")), ("b", Some(b"")), ("c", None)] {
                Header { key: key.as_bytes(), value }.write(layout, &mut bytes);
            }
            let headers = Headers::parse(&bytes, layout).expect("sound");
            let value = |text: &str| Some(text.as_bytes().to_vec());
            // Framed headers have no null.
            let null = if layout == HeaderLayout::Framed { value("") } else { None };
            for (condition, expected) in [
                (of("a", HeaderTest::Present), true),
                (of("A", HeaderTest::Present), false),
                (of("a", HeaderTest::Absent), false),
                (of("z", HeaderTest::Absent), true),
                (of("a", HeaderTest::Is(value("1"))), true),
                (of("a", HeaderTest::Is(value("2"))), true),
                (of("a", HeaderTest::Is(value("3"))), false),
                (of("b", HeaderTest::Is(value(""))), true),
                (of("b", HeaderTest::Is(value("1"))), false),
                (of("c", HeaderTest::Is(null.clone())), true),
                (of("c", HeaderTest::IsNot(null)), false),
                (of("a", HeaderTest::Is(None)), false),
                (of("a", HeaderTest::IsNot(value("1"))), false),
                (of("a", HeaderTest::IsNot(value("3"))), true),
                (of("z", HeaderTest::IsNot(value("1"))), true),
            ] {
                assert_eq!(condition.holds(headers), expected, "{condition:?} {layout:?}");
                // What holds must never be passed over.
                assert!(!expected || condition.may_occur(&bytes), "{condition:?}");
            }
        }
    }

    #[test]
    fn bytes_without_the_value_are_passed_over() {
        let is = of("trace-id", HeaderTest::Is(Some(b"abcd".to_vec())));
        assert!(!is.may_occur(b"trace-id abc"));
        assert!(is.may_occur(b"xx abcd"));
        let short = of("trace-id", HeaderTest::Is(Some(b"a".to_vec())));
        assert!(!short.may_occur(b"a lot of bytes") && short.may_occur(b"trace-id"));
        assert!(of("k", HeaderTest::IsNot(Some(b"a".to_vec()))).may_occur(b""));
    }
}
