//! Parsing a message: its root, leaves and attached messages.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ops::Range;

use super::body::{lacks_boundary, tidy_body};
use super::head::parse_head;
use super::multipart::PendingPart;
use super::node::{Field, Node, Piece};
use super::{MimeTree, NODES_MAX};
use crate::views::content_type;

/// The header block of a message that becomes a part.
pub(super) struct MessageHead<'r> {
    pub(super) fields: Vec<(Cow<'r, [u8]>, Range<usize>)>,
    pub(super) values: Piece<'r>,
    pub(super) body: Cow<'r, [u8]>,
    pub(super) crlf: bool,
}

impl<'m> MimeTree<'m> {
    /// Adds a message (the root, or an attached one) and returns what is to be parsed of it.
    pub(super) fn add_message(
        &mut self,
        head: MessageHead<'m>,
        depth_left: u32,
    ) -> PendingPart<'m> {
        let fields = head.fields.into_iter();
        let fields = fields.map(|(name, range)| Field::new(name, head.values.slice(range)));
        let mut node = Node { fields: fields.collect(), is_leaf: true, ..Node::default() };
        node.parse_content_type();
        let boundary = node.content_type.boundary.clone();
        let mut body = tidy_body(head.body, head.crlf);
        if node.kind.starts_with("multipart/") && lacks_boundary(&body, boundary.as_deref()) {
            body.to_mut().insert(0, b'\n');
        }
        self.nodes.push(node);
        let index = self.nodes.len() - 1;
        PendingPart { node: index, boundary, body: Piece::of(body), depth_left }
    }

    pub(super) fn parse_part(
        &mut self,
        part: PendingPart<'m>,
        queue: &mut VecDeque<PendingPart<'m>>,
    ) {
        let multipart = self.nodes[part.node].kind.starts_with("multipart/");
        match part.boundary.clone() {
            Some(boundary) if multipart && part.depth_left > 0 => {
                self.parse_multipart(&part, &boundary, queue);
            }
            _ => self.parse_leaf(part, queue),
        }
    }

    pub(super) fn parse_leaf(
        &mut self,
        part: PendingPart<'m>,
        queue: &mut VecDeque<PendingPart<'m>>,
    ) {
        let node = &mut self.nodes[part.node];
        let found = &node.content_type;
        let disposition = node.value("content-disposition");
        let name = content_type::disposition_name(disposition).or_else(|| found.name.clone());
        let charset = found.charset.clone();
        if !found.missing {
            let orphan = found.kind.starts_with("multipart/") && part.boundary.is_none();
            node.kind = if orphan { "text/plain".to_owned() } else { found.kind.clone() };
        }
        (node.name, node.charset) = (name, charset);
        node.body = Some(part.body);
        let message = matches!(node.kind.as_str(), "message/rfc822" | "message/global");
        if message && part.depth_left > 0 && self.nodes.len() < NODES_MAX {
            self.parse_attached(part.node, part.depth_left, queue);
        }
    }

    /// An attached message becomes the only child of its part.
    pub(super) fn parse_attached(
        &mut self,
        node: usize,
        depth_left: u32,
        queue: &mut VecDeque<PendingPart<'m>>,
    ) {
        let decoded = self.nodes[node].decoded().to_vec();
        if decoded.is_empty() {
            return;
        }
        let head = parse_head(&decoded);
        let fields = head.fields.into_iter();
        let head = MessageHead {
            fields: fields.map(|(name, range)| (Cow::Owned(name.to_vec()), range)).collect(),
            values: Piece::of(Cow::Owned(head.values.into_owned())),
            body: Cow::Owned(head.body.to_vec()),
            crlf: head.crlf,
        };
        let child = self.add_message(head, depth_left - 1);
        let parent = &mut self.nodes[node];
        parent.children.push(child.node);
        parent.is_leaf = false;
        parent.body = None;
        parent.decoded = OnceCell::new();
        queue.push_back(child);
    }
}
