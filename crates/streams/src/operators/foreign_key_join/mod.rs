//! The join of a table with another by a foreign key, which is taken from the first table's values.
//!
//! Left and right table are partitioned by different keys, so they send each other messages (Java's formats):
//!
//! 1. A change of the left table sends a *subscription* to where the foreign key is ([`send`]).
//! 2. There it is remembered in the subscription store ([`receive`]) and answered with what the right table has ([`lookup`]).
//! 3. A change of the right table answers all who have subscribed to its key ([`foreign_change`]).
//! 4. Back home an answer makes a result if it is to the left value of this moment: both carry its hash ([`resolve`]). An answer
//!    that was overtaken by a newer left value is dropped; the newer one's answer is on its way.

mod foreign_change;
mod lookup;
mod murmur3;
mod receive;
mod resolve;
mod response;
mod send;
mod subscription;
mod topics;

pub(crate) use self::foreign_change::foreign_change;
pub(crate) use self::lookup::lookup;
pub(crate) use self::receive::receive;
pub(crate) use self::resolve::{ForeignJoiner, resolve};
pub(crate) use self::response::{Response, ResponseSerde};
pub(crate) use self::send::{ForeignKeyOf, SendSerdes, send};
pub(crate) use self::subscription::{Subscription, SubscriptionSerde, SubscriptionToken};
pub(crate) use self::topics::PseudoTopics;

/// Which kind of join it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignJoin {
    /// A left value without a right one has no result.
    Inner,
    /// It is joined with nothing.
    Left,
}
