//! The test driver: a topology on real tasks, without a broker, without threads, with a clock that the test turns.

mod cluster;
mod collector;
mod driver;
mod processor_driver;
mod task_driver;
mod test_task;
mod topics;
mod value_transformer_driver;

pub use self::collector::ProducedRecord;
pub use self::driver::{LocalState, TopologyTestDriver, TopologyTestDriverBuilder};
pub use self::processor_driver::{
    Forwarded, ForwardedOf, ProcessorTestDriver, ProcessorTestDriverBuilder,
};
#[doc(hidden)]
pub use self::task_driver::TaskDriver;
pub use self::topics::{TestInputTopic, TestOutputTopic};
pub use self::value_transformer_driver::ValueTransformerTestDriver;

/// A table of keys and values for assertions: `table! { "to" => 2, "be" => 2 }`.
#[macro_export]
macro_rules! table {
    ($($key:expr => $value:expr),* $(,)?) => {
        std::collections::BTreeMap::from([$(($key.into(), $value.into())),*])
    };
}
