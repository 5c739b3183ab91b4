//! Numbers, descriptors and connections by the names that the script gives them.

use super::calls::{FastOpen, Request, Stop};
use super::flow::{Flow, Stage};
use super::options::Options;
use super::symbols;
use crate::lang::{Expr, ExprKind};
use base::Endpoint;
use sock::Fd;
use std::collections::HashMap;

type Result<T> = std::result::Result<T, Stop>;

/// The names of a script in a run, and what they stand for.
pub(super) struct Known {
    pub(super) options: Options,
    pub(super) defines: Vec<(String, String)>,
    /// Script's descriptors and the API's.
    pub(super) fds: HashMap<i64, Fd>,
    pub(super) flows: Vec<Flow>,
    /// The connection that packets are about.
    pub(super) current: Option<usize>,
}

impl Known {
    /// Notes the effect of a call on the connections as soon as it begins.
    pub(super) fn began(&mut self, request: &Request) {
        let index = |known: &Self, fd: Fd| {
            let script_fd = known.fds.iter().find(|(_, live)| **live == fd).map(|(number, _)| *number);
            script_fd.and_then(|number| known.flows.iter().rposition(|flow| flow.fd == Some(number)))
        };
        match request {
            Request::Bind(fd, local) => {
                if let Some(at) = index(self, *fd) {
                    self.flows[at].local = Some(*local);
                }
            }
            Request::Listen(fd, _) => {
                if let Some(at) = index(self, *fd) {
                    self.flows[at].stage = Stage::Listening;
                    self.current = Some(at);
                }
            }
            Request::Connect(fd, remote)
            | Request::Send { fd, fast_open: Some(FastOpen::To(remote)), .. } => {
                if let Some(at) = index(self, *fd).filter(|&at| self.flows[at].stage == Stage::Fresh) {
                    let flow = &mut self.flows[at];
                    (flow.stage, flow.remote, flow.local) = (Stage::Connecting, Some(*remote), None);
                    self.current = Some(at);
                }
            }
            _ => {}
        }
    }

    /// The number an expression stands for.
    pub(super) fn int(&self, expr: &Expr) -> Result<i64> {
        match &expr.kind {
            ExprKind::Int(value) => Ok(*value),
            ExprKind::Or(left, right) => Ok(self.int(left)? | self.int(right)?),
            ExprKind::Name(name) => self.named(name),
            ExprKind::Apply(name, arguments) if name == "htons" || name == "htonl" => {
                arguments.first().map_or(Ok(0), |argument| self.int(argument))
            }
            _ => Stop::fail("a number is expected here"),
        }
    }

    fn named(&self, name: &str) -> Result<i64> {
        if let Some((_, value)) = self.defines.iter().find(|(known, _)| known == name) {
            return match value.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16).or_else(|_| self.symbol(value)),
                None => value.parse().or_else(|_| self.symbol(value)),
            };
        }
        self.symbol(name)
    }

    fn symbol(&self, name: &str) -> Result<i64> {
        // google's runner defines these two for each family.
        match name {
            "CMSG_LEVEL_IP" => return Ok(self.options.error_level().0),
            "CMSG_TYPE_RECVERR" => return Ok(self.options.error_level().1),
            _ => {}
        }
        symbols::find(name).ok_or_else(|| Stop::Unsupported(format!("the name {name}")))
    }

    /// The value of a field of a struct.
    pub(super) fn field<'e>(&self, item: &'e Expr, name: &str) -> Result<Option<&'e Expr>> {
        let ExprKind::Struct(fields) = &item.kind else { return Stop::fail("a struct is expected here") };
        Ok(fields.iter().find_map(|field| match &field.kind {
            ExprKind::Field(known, _, value) if known == name => Some(&**value),
            _ => None,
        }))
    }

    /// The user's word of an epoll event.
    pub(super) fn event_data(&self, item: &Expr) -> Result<u64> {
        for name in ["fd", "ptr", "u32", "u64"] {
            if let Some(value) = self.field(item, name)? {
                return Ok(self.int(value)? as u64);
            }
        }
        Ok(0)
    }

    /// Gives a new descriptor the script's number for it; what that number is.
    pub(super) fn name_descriptor(&mut self, number: Option<i64>, fd: Fd) -> i64 {
        let number = number.unwrap_or(i64::from(fd) + 1_000_000);
        for flow in self.flows.iter_mut().filter(|flow| flow.fd == Some(number)) {
            flow.fd = None;
        }
        // A descriptor of the API that is used again stands for the new socket only.
        self.fds.retain(|_, live| *live != fd);
        self.fds.insert(number, fd);
        number
    }

    pub(super) fn begin_flow(&mut self, flow: Flow) {
        self.flows.push(flow);
        self.current = Some(self.flows.len() - 1);
    }

    pub(super) fn flow_of(&self, script_fd: i64) -> Option<&Flow> {
        self.flows.iter().rfind(|flow| flow.fd == Some(script_fd))
    }

    pub(super) fn flow_of_mut(&mut self, script_fd: i64) -> Option<&mut Flow> {
        self.flows.iter_mut().rfind(|flow| flow.fd == Some(script_fd))
    }

    /// accept() gave this connection.
    pub(super) fn accepted(&mut self, script_fd: i64, peer: Endpoint) {
        if let Some(flow) = self.flows.iter_mut().rfind(|flow| flow.fd.is_none() && flow.remote == Some(peer))
        {
            flow.fd = Some(script_fd);
        }
    }
}
