//! What packets carry, handed to judges.

mod it {}
