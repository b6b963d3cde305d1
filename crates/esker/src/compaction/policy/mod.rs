//! The compaction policies. Each file defines a policy's parameters and documents its costs.

pub mod fluid;
pub mod fragmented;
pub mod lazy;
pub mod leveled;
pub mod tiered;

use super::picker::TreePicker;
use super::{Picker, Shape, TreeLimits};
use crate::options::kinds::Policy;

/// Returns the parameters of a policy.
pub fn shape(policy: Policy, limits: &TreeLimits) -> Shape {
    match policy {
        Policy::Leveled => leveled::shape(limits),
        Policy::Tiered => tiered::shape(limits),
        Policy::Fragmented => fragmented::shape(limits),
        Policy::Lazy => lazy::shape(limits),
        Policy::Fluid => fluid::shape(limits),
    }
}

/// Returns the picker, which all policies share because the limits carry the parameters.
pub fn picker() -> Box<dyn Picker> {
    Box::new(TreePicker)
}
