//! What an agent does as one of many: data for questions about all of them, and policies that come
//! to all of them.

mod fleet;
mod rollout;
