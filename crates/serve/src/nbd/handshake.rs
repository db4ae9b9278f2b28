//! The handshake: client and server agree on options before the first request.
//!
//! ```text
//!   greeting, flags --> options, one at a time --> GO or EXPORT_NAME --> transmission
//!                         |  STARTTLS: everything agreed on so far is discarded
//!                         +- ABORT, or a violation of the protocol: the end
//! ```
//!
//! Invariants
//!   H1  No option costs more memory than [`OPTION_LEN_BYTES_MAX`], whatever length it announces.
//!   H2  If TLS is required, the server reveals nothing about the export before TLS.
//!   H3  The number of options of a client and the time for them are limited.

use super::protocol::{
    CONTEXT_ALLOCATION, CONTEXT_ALLOCATION_ID, CONTEXT_NAMESPACE, EXPORT_NAME_ZEROES_LEN_BYTES,
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, Fields, MAGIC_OPTION, OPTION_HEADER_LEN_BYTES, Put,
    greeting, info, option, option_reply, put_option_reply, transmission,
};
use super::{Export, REQUEST_LEN_BYTES_MAX};
use crate::transport::{Receiver, Sender, Tls};
use std::io::{self, ErrorKind};

/// The longest option that is parsed: a name and eight queries of the protocol's 4096 bytes.
pub(crate) const OPTION_LEN_BYTES_MAX: u32 = 36 << 10;

/// The longest option that is skipped and answered; a longer one ends the connection.
const OPTION_SKIPPED_LEN_BYTES_MAX: u32 = 1 << 20;

/// The most options of a client. There are eleven, and clients try some of them twice.
const OPTION_COUNT_MAX: u32 = 256;

/// The options that both sides agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) structured_replies: bool,
    /// `base:allocation` was selected for the export that is served.
    pub(crate) allocation: bool,
}

/// The outcome of a handshake without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Transmission(Agreed),
    /// The client has left.
    Left,
}

struct Handshake<'a> {
    receiver: &'a mut Receiver,
    sender: &'a mut Sender,
    export: &'a Export,
    tls: Option<&'a Tls>,
    under_tls: bool,
    is_fixed: bool,
    no_zeroes: bool,
    structured_replies: bool,
    /// The name of the export for which `base:allocation` was selected.
    allocation_of: Option<String>,
}

/// Performs the handshake.
///
/// # Errors
/// The connection failed, or the client broke the protocol. The caller must close the connection.
pub(crate) fn shake_hands(
    receiver: &mut Receiver,
    sender: &mut Sender,
    export: &Export,
    tls: Option<&Tls>,
) -> io::Result<Outcome> {
    sender.send(&greeting())?;
    if !receiver.fill(4)? {
        return Ok(Outcome::Left);
    }
    let flags = Fields(receiver.received()).u32().expect("4 bytes are there");
    receiver.take(4);
    let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
    if flags & !known != 0 {
        return Err(broken(format!("client flags {flags:#x}, of which only {known:#x} exist")));
    }
    let has = |flag: u16| flags & u32::from(flag) != 0;
    let mut handshake = Handshake {
        receiver,
        sender,
        export,
        tls,
        under_tls: false,
        is_fixed: has(FLAG_FIXED_NEWSTYLE),
        no_zeroes: has(FLAG_NO_ZEROES),
        structured_replies: false,
        allocation_of: None,
    };
    for _ in 0..OPTION_COUNT_MAX {
        if let Some(outcome) = handshake.option()? {
            return Ok(outcome);
        }
    }
    Err(broken(format!("more than {OPTION_COUNT_MAX} options")))
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

impl Handshake<'_> {
    /// Reads an option and answers it; the outcome if it was the last.
    fn option(&mut self) -> io::Result<Option<Outcome>> {
        if !self.receiver.fill(OPTION_HEADER_LEN_BYTES)? {
            return Ok(Some(Outcome::Left));
        }
        let mut fields = Fields(&self.receiver.received()[..OPTION_HEADER_LEN_BYTES]);
        let (magic, option, len) = (fields.u64(), fields.u32(), fields.u32());
        let (Some(magic), Some(option), Some(len)) = (magic, option, len) else {
            unreachable!("16 bytes are there");
        };
        self.receiver.take(OPTION_HEADER_LEN_BYTES);
        if magic != MAGIC_OPTION {
            return Err(broken(format!("an option starts with {magic:#x}")));
        }
        if len > OPTION_LEN_BYTES_MAX {
            self.skip_oversized(option, len)?;
            return self.answer(option, Err(len));
        }
        let data = self.receiver.read_vec(len as usize)?;
        self.answer(option, Ok(&data))
    }

    /// Skips an option that is too long, without keeping any of it (H1).
    fn skip_oversized(&mut self, option: u32, len: u32) -> io::Result<()> {
        if len > OPTION_SKIPPED_LEN_BYTES_MAX || option == option::EXPORT_NAME || !self.is_fixed {
            return Err(broken(format!("option {option} of {len} bytes")));
        }
        self.receiver.skip(u64::from(len))
    }

    /// Answers an option, given its data, or their length if they were too long to be kept.
    fn answer(&mut self, option: u32, data: Result<&[u8], u32>) -> io::Result<Option<Outcome>> {
        if !self.is_fixed && option != option::EXPORT_NAME {
            return Err(broken(format!("option {option} from a client without fixed newstyle")));
        }
        let must_be_sealed = self.tls.is_some_and(|tls| tls.is_required) && !self.under_tls;
        if must_be_sealed && !matches!(option, option::STARTTLS | option::ABORT) {
            // H2.
            if option == option::EXPORT_NAME {
                return Err(broken("the client does not use TLS, which is required"));
            }
            self.refuse(option, option_reply::ERR_TLS_REQD, "this server requires TLS")?;
            return Ok(None);
        }
        if option == option::ABORT {
            // The client may leave without waiting for this reply.
            let _ = self.reply(option, option_reply::ACK, &[]);
            return Ok(Some(Outcome::Left));
        }
        if option == option::SET_META_CONTEXT {
            // The old selection is discarded even if this option fails.
            self.allocation_of = None;
        }
        let data = match data {
            Ok(data) => data,
            Err(len) => {
                let message = format!(
                    "the option has {len} bytes; at most {OPTION_LEN_BYTES_MAX} are allowed"
                );
                self.refuse(option, option_reply::ERR_TOO_BIG, &message)?;
                return Ok(None);
            }
        };
        match option {
            option::EXPORT_NAME => return self.export_name(data).map(Some),
            option::LIST => self.list(data)?,
            option::STARTTLS => self.start_tls(data)?,
            option::INFO | option::GO => return self.go(option, data),
            option::STRUCTURED_REPLY => self.structured_reply(data)?,
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(option, data)?;
            }
            _ => self.refuse(option, option_reply::ERR_UNSUP, "this server has no such option")?,
        }
        Ok(None)
    }

    fn reply(&mut self, option: u32, reply: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        put_option_reply(&mut bytes, option, reply, data);
        self.sender.send(&bytes)
    }

    fn refuse(&mut self, option: u32, error: u32, message: &str) -> io::Result<()> {
        self.reply(option, error, message.as_bytes())
    }

    fn malformed(&mut self, option: u32) -> io::Result<()> {
        self.refuse(option, option_reply::ERR_INVALID, "the option's data are malformed")
    }

    /// Whether `name` means the export; the empty name means the default export.
    fn is_ours(&self, name: &str) -> bool {
        name.is_empty() || name == self.export.name
    }

    fn unknown(&mut self, option: u32) -> io::Result<()> {
        self.refuse(option, option_reply::ERR_UNKNOWN, "this server has no export of that name")
    }

    fn flags(&self) -> u16 {
        let rotational =
            if self.export.device.is_rotational() { transmission::ROTATIONAL } else { 0 };
        let df = if self.structured_replies { transmission::SEND_DF } else { 0 };
        // All connections share one device, so a flush covers the acknowledged writes of any of them.
        let all = transmission::HAS_FLAGS
            | transmission::SEND_FLUSH
            | transmission::CAN_MULTI_CONN
            | rotational
            | df;
        all | if self.export.is_read_only {
            transmission::READ_ONLY
        } else {
            transmission::SEND_FUA
                | transmission::SEND_TRIM
                | transmission::SEND_WRITE_ZEROES
                | transmission::SEND_FAST_ZERO
        }
    }

    /// The old option that starts the transmission. The protocol has no refusal for it except to disconnect.
    fn export_name(&mut self, data: &[u8]) -> io::Result<Outcome> {
        let name =
            std::str::from_utf8(data).map_err(|_| broken("the export's name is not text"))?;
        if !self.is_ours(name) {
            return Err(broken(format!("there is no export {name:?}")));
        }
        let mut bytes = Vec::new();
        bytes.put_u64(self.export.device.len_bytes());
        bytes.put_u16(self.flags());
        if !self.no_zeroes {
            bytes.extend_from_slice(&[0; EXPORT_NAME_ZEROES_LEN_BYTES]);
        }
        self.sender.send(&bytes)?;
        Ok(Outcome::Transmission(self.agreed(name)))
    }

    fn agreed(&self, name: &str) -> Agreed {
        let allocation = self.allocation_of.as_deref() == Some(name);
        Agreed { structured_replies: self.structured_replies, allocation }
    }

    fn list(&mut self, data: &[u8]) -> io::Result<()> {
        if !data.is_empty() {
            return self.malformed(option::LIST);
        }
        let name = self.export.name.as_bytes();
        let mut server = Vec::new();
        server.put_u32(u32::try_from(name.len()).expect("checked when the server was made"));
        server.extend_from_slice(name);
        server.extend_from_slice(self.export.description.as_bytes());
        self.reply(option::LIST, option_reply::SERVER, &server)?;
        self.reply(option::LIST, option_reply::ACK, &[])
    }

    fn start_tls(&mut self, data: &[u8]) -> io::Result<()> {
        let option = option::STARTTLS;
        let Some(tls) = self.tls else {
            return self.refuse(option, option_reply::ERR_UNSUP, "this server has no certificate");
        };
        if !data.is_empty() || self.under_tls {
            return self.malformed(option);
        }
        self.reply(option, option_reply::ACK, &[])?;
        self.receiver.start_tls(self.sender, tls.session()?)?;
        self.under_tls = true;
        // A man in the middle before TLS must not influence options under TLS.
        self.structured_replies = false;
        self.allocation_of = None;
        Ok(())
    }

    fn structured_reply(&mut self, data: &[u8]) -> io::Result<()> {
        if !data.is_empty() || self.structured_replies {
            return self.malformed(option::STRUCTURED_REPLY);
        }
        self.structured_replies = true;
        self.reply(option::STRUCTURED_REPLY, option_reply::ACK, &[])
    }

    fn go(&mut self, option: u32, data: &[u8]) -> io::Result<Option<Outcome>> {
        let Some((name, asked)) = parse_go(data) else {
            self.malformed(option)?;
            return Ok(None);
        };
        if !self.is_ours(name) {
            self.unknown(option)?;
            return Ok(None);
        }
        let device = &self.export.device;
        let mut infos = vec![Vec::new(), Vec::new()];
        infos[0].put_u16(info::EXPORT);
        infos[0].put_u64(device.len_bytes());
        infos[0].put_u16(self.flags());
        // Sent even if the client did not ask: it may use the information all the same.
        infos[1].put_u16(info::BLOCK_SIZE);
        infos[1].put_u32(device.sector_len_bytes());
        infos[1].put_u32(device.preferred_len_bytes());
        infos[1].put_u32(REQUEST_LEN_BYTES_MAX);
        for (kind, text) in
            [(info::NAME, &self.export.name), (info::DESCRIPTION, &self.export.description)]
        {
            if asked.contains(&kind) {
                let mut told = Vec::new();
                told.put_u16(kind);
                told.extend_from_slice(text.as_bytes());
                infos.push(told);
            }
        }
        for told in infos {
            self.reply(option, option_reply::INFO, &told)?;
        }
        self.reply(option, option_reply::ACK, &[])?;
        let agreed = self.agreed(name);
        Ok((option == option::GO).then_some(Outcome::Transmission(agreed)))
    }

    fn meta_context(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set && !self.structured_replies {
            let message = "contexts need structured replies first";
            return self.refuse(option, option_reply::ERR_INVALID, message);
        }
        let Some((name, queries)) = parse_queries(data) else { return self.malformed(option) };
        if !self.is_ours(name) {
            return self.unknown(option);
        }
        let is_wanted =
            |query: &&str| *query == CONTEXT_ALLOCATION || !is_set && *query == CONTEXT_NAMESPACE;
        let lists_all = !is_set && queries.is_empty();
        if lists_all || queries.iter().any(is_wanted) {
            let mut context = Vec::new();
            context.put_u32(if is_set { CONTEXT_ALLOCATION_ID } else { 0 });
            context.extend_from_slice(CONTEXT_ALLOCATION.as_bytes());
            self.reply(option, option_reply::META_CONTEXT, &context)?;
            if is_set {
                self.allocation_of = Some(name.to_owned());
            }
        }
        self.reply(option, option_reply::ACK, &[])
    }
}

/// The name and the kinds of information that `INFO` or `GO` asks for.
fn parse_go(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u16()?;
    let asked = (0..count).map(|_| fields.u16()).collect::<Option<_>>()?;
    fields.is_empty().then_some((name, asked))
}

/// The name and the queries of an option about contexts.
fn parse_queries(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u32()?;
    // Capacity follows the data, not the announced count.
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(fields.string()?);
    }
    fields.is_empty().then_some((name, queries))
}
