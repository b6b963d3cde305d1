//! Rest compactions: the ranges that a store at rest merges.
