//! The key orders that keyspaces of a store may have, by name. In C and Python a keyspace names its
//! order. The functions of custom orders are given once, in the options with which a store is
//! opened.
//!
//! Invariant: of several orders with one name, the first is used, as in the engine.

use esker::{ErrorKind, KeyOrder, Options, Result, internals};

/// The key orders of a store.
#[derive(Default)]
pub struct Orders {
    /// The store's own order, then those that are only for keyspaces.
    custom: Vec<KeyOrder>,
}

impl Orders {
    /// Returns the orders of a store opened with `options`.
    pub fn of(options: &Options) -> Orders {
        let orders = std::iter::once(&options.key_order).chain(&options.key_orders);
        Orders { custom: orders.cloned().collect() }
    }

    /// Returns the order with this name: a custom one, `esker.bytewise` or `esker.reverse`.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name.
    pub fn find(&self, name: &str) -> Result<KeyOrder> {
        let built_in = [KeyOrder::Bytewise, KeyOrder::Reverse];
        let mut orders = built_in.iter().chain(&self.custom);
        orders.find(|order| order.name() == name).cloned().ok_or_else(|| {
            let known: Vec<&str> =
                built_in.iter().chain(&self.custom).map(KeyOrder::name).collect();
            let message = format!(
                "the store has no key order \"{name}\"; add it to the options with which the \
                 store is opened, or use one of {}",
                known.join(", ")
            );
            internals::error(ErrorKind::InvalidArgument, message, None)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use esker::Comparator;

    use super::*;

    struct ByLength;

    impl Comparator for ByLength {
        fn name(&self) -> &str {
            "test.ByLength"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        }
    }

    #[test]
    fn orders_are_found_by_the_names_that_the_engine_records() {
        let custom = KeyOrder::Custom(Arc::new(ByLength));
        let options = Options { key_orders: vec![custom], ..Options::default() };
        let orders = Orders::of(&options);
        for name in ["esker.bytewise", "esker.reverse", "test.ByLength"] {
            let found = orders.find(name).unwrap();
            assert_eq!(format!("{found:?}"), format!("KeyOrder({name})"));
        }
        let error = orders.find("test.Unknown").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("test.Unknown") && text.contains("test.ByLength"), "{text}");
        assert!(Orders::default().find("test.ByLength").is_err());
    }
}
