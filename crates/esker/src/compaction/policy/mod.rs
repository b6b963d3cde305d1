//! The policies: each a file that says which parameters of the tree it is and what it costs.

pub mod fluid;
pub mod fragmented;
pub mod lazy;
pub mod leveled;
pub mod tiered;

use super::picker::TreePicker;
use super::{Picker, Shape, TreeLimits};
use crate::options::kinds::Policy;

/// The parameters of a policy.
pub fn shape(policy: Policy, limits: &TreeLimits) -> Shape {
    match policy {
        Policy::Leveled => leveled::shape(limits),
        Policy::Tiered => tiered::shape(limits),
        Policy::Fragmented => fragmented::shape(limits),
        Policy::Lazy => lazy::shape(limits),
        Policy::Fluid => fluid::shape(limits),
    }
}

/// The picker of a policy: the one picker, since limits carry the parameters.
pub fn picker() -> Box<dyn Picker> {
    Box::new(TreePicker)
}
