//! HTML as mail carries it: a tolerant tokenizer with byte offsets, character references, what a
//! style hides, and the faithful rendering to text.
//!
//! [`token`] is the lower level that other renderings stand on too (the rule language needs one
//! that agrees with SpamAssassin's); [`render()`] is the one for display, classifier and
//! signatures, and its pass over the tokens is the only one: what the classifier reads of tags is
//! its [`outline`].

pub mod colour;
mod css_value;
pub mod entity;
pub mod outline;
pub mod render;
pub mod style;
mod stylesheet;
pub mod tag;
pub mod token;

pub use outline::{Outline, OutlineTag};
pub(crate) use render::rendered_at_most;
pub use render::{
    HiddenReasons, HiddenRun, Link, Places, Rendered, Structure, invisible_places, render,
};
pub use tag::Element;
pub use token::{Attribute, Tag, Token, Tokenizer};
