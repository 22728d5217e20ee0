//! Which record format a version of the Produce and Fetch requests speaks; the requests themselves are not built here.
//!
//! | | v0 | v1 | magic 2 |
//! |---|---|---|---|
//! | Kafka: Produce | 0–1 | 2 | 3 on (v2) |
//! | Kafka: Fetch | 0–1 | 2–3 | 4 on (v2) |
//! | KIP-87: Produce | 0–1 | 2 | 3 on (kip87) |
//! | KIP-87: Fetch | 0–1 | 2 | 3 on (kip87) |
//!
//! Kafka's rows are those of its protocol guide (KIP-32, KIP-98); KIP-87's are those of its migration plan, which was
//! written before KIP-74 took version 3 of Fetch.

use crate::format::Format;

/// The two requests that carry records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// From a producer to a broker.
    Produce,
    /// From a broker to a consumer, in the response.
    Fetch,
}

impl Request {
    /// By its name, `produce` or `fetch` in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [("produce", Self::Produce), ("fetch", Self::Fetch)]
            .into_iter()
            .find_map(|(known, request)| name.eq_ignore_ascii_case(known).then_some(request))
    }
}

/// Whose request versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Apache Kafka's.
    #[default]
    Kafka,
    /// Those that KIP-87 planned.
    Kip87,
}

/// The format that a version of a request speaks; `None` for a negative version.
#[must_use]
pub const fn request_format(protocol: Protocol, request: Request, version: i16) -> Option<Format> {
    Some(match (protocol, request, version) {
        (_, _, i16::MIN..=-1) => return None,
        (_, _, 0..=1) => Format::V0,
        (_, _, 2) | (Protocol::Kafka, Request::Fetch, 3) => Format::V1,
        (Protocol::Kafka, _, _) => Format::V2,
        (Protocol::Kip87, _, _) => Format::Kip87,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        use Protocol::{Kafka, Kip87};
        let formats = |protocol, request| {
            (0..5)
                .map(|version| request_format(protocol, request, version).map(Format::name))
                .collect::<Vec<_>>()
        };
        let named = |names: [&'static str; 5]| names.map(Some).to_vec();
        assert_eq!(formats(Kafka, Request::Produce), named(["v0", "v0", "v1", "v2", "v2"]));
        assert_eq!(formats(Kafka, Request::Fetch), named(["v0", "v0", "v1", "v1", "v2"]));
        assert_eq!(formats(Kip87, Request::Produce), named(["v0", "v0", "v1", "kip87", "kip87"]));
        assert_eq!(formats(Kip87, Request::Fetch), named(["v0", "v0", "v1", "kip87", "kip87"]));
        assert_eq!(request_format(Kafka, Request::Fetch, -1), None);
        assert_eq!(Request::from_name("Fetch"), Some(Request::Fetch));
    }
}
