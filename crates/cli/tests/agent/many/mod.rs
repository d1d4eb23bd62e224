//! What an agent does as one of many: data for questions about all of them, and policies that come
//! to all of them. And what it tells of many cgroups over time.

mod cgroups;
mod fleet;
mod rollout;
