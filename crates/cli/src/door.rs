//! The address where a command serves its page, and the readers that it answers.

use crate::error::{CliError, Context};
use crate::output::{Output, note};
use imbrex_clockwork::{Crew, WallClock, entropy_u64};
use imbrex_serve::http::{Access, Server, ServerOptions, Site};
use imbrex_serve::{ListenError, Listener, Reach, Tls, TlsFiles};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

/// The flags of a page.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DoorArgs {
    /// Listen at this address; port 0 selects a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7410")]
    listen: String,
    /// Listen at a Unix socket of this path instead, which only this user may connect to
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// Allow --listen at an address that other machines can reach; readers then need a token
    #[arg(long)]
    allow_remote: bool,
    /// The token that readers must name; without it one is made up where one is needed
    #[arg(long, value_name = "TOKEN", env = "IMBREX_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Serve HTTPS with this certificate and its chain (PEM); needs a build with `--features tls`
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// The shortest token for other machines.
const TOKEN_LEN_MIN: usize = 16;

/// An open door. Dropping it does not close it; [`Door::close`] does.
pub(crate) struct Door {
    server: Arc<Server>,
    crew: Crew,
}

impl DoorArgs {
    /// A door at `address`, for this machine only.
    pub(crate) fn at(address: &str) -> DoorArgs {
        DoorArgs {
            listen: address.to_owned(),
            socket: None,
            allow_remote: false,
            token: None,
            tls_cert: None,
            tls_key: None,
        }
    }

    /// Opens the door and tells its address.
    pub(crate) fn open(&self, site: Arc<dyn Site>, out: &mut Output) -> Result<Door, CliError> {
        let is_json = out.is_json()?;
        let (door, url) = self.open_quietly(site)?;
        if is_json {
            note(format!("imbrex: the page is at {url}"));
        } else {
            out.line(format!("the page is at {url}"))?;
            out.line("Ctrl-C ends it")?;
            out.flush()?;
        }
        Ok(door)
    }

    /// Opens the door; returns its address as well.
    pub(crate) fn open_quietly(&self, site: Arc<dyn Site>) -> Result<(Door, String), CliError> {
        let listener = self.listener()?;
        let mut options = ServerOptions::new(Arc::new(WallClock::new()));
        options.tls = self.tls()?;
        let token = match (&self.token, listener.reach()) {
            (Some(token), _) if token.is_empty() => {
                return Err(CliError::usage("an empty --token would let everybody in; name one"));
            }
            (Some(token), Reach::Anywhere) if token.len() < TOKEN_LEN_MIN => {
                return Err(CliError::usage(format!(
                    "a --token of {} characters is soon guessed; use {TOKEN_LEN_MIN} or more, or omit it",
                    token.len()
                )));
            }
            (Some(token), _) => Some(token.clone()),
            (None, Reach::Anywhere) => {
                Some(format!("{:016x}{:016x}", entropy_u64(), entropy_u64()))
            }
            (None, Reach::Loopback) => None,
        };
        let url = self.url(&listener, token.as_deref());
        if listener.reach() == Reach::Anywhere && options.tls.is_none() {
            note(
                "imbrex: warning: other machines reach this address without TLS: a listener on the way can read \
                 the token; --tls-cert and --tls-key make it safe",
            );
        }
        options.access = token.map_or(Access::Local, Access::Token);
        let server = Server::new(site, options).context(|| "cannot serve the page")?;
        let server = Arc::new(server);
        let crew = Crew::new();
        let serving = Arc::clone(&server);
        let serve = move || {
            if let Err(error) = serving.serve(&listener) {
                note(format!("imbrex: the page is no longer served: {error}"));
            }
        };
        crew.start("page", serve).context(|| "cannot start a thread for the page")?;
        Ok((Door { server, crew }, url))
    }

    fn listener(&self) -> Result<Listener, CliError> {
        let reach = if self.allow_remote { Reach::Anywhere } else { Reach::Loopback };
        let bound = match &self.socket {
            Some(path) => Listener::unix(path),
            None => Listener::tcp(resolved(&self.listen)?, reach),
        };
        bound.map_err(|error| match error {
            ListenError::Remote { .. } => {
                CliError::usage(format!("cannot listen: {error}; --allow-remote permits it"))
            }
            error => CliError::of("cannot listen", &error),
        })
    }

    fn tls(&self) -> Result<Option<Tls>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let files = TlsFiles { certificate, key, client_authority: None, is_required: true };
        Tls::load(&files).context(|| "cannot offer TLS").map(Some)
    }

    fn url(&self, listener: &Listener, token: Option<&str>) -> String {
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        let token = token.map_or_else(String::new, |token| format!("?token={token}"));
        match listener.address() {
            Some(address) => format!("{scheme}://{address}/{token}"),
            None => format!("the socket {listener}"),
        }
    }
}

impl Door {
    /// Ends all connections and the server.
    pub(crate) fn close(self) {
        self.server.stopper().stop();
        self.crew.wait_idle(std::time::Duration::MAX);
        for story in self.server.panics() {
            note(format!("imbrex: a connection of the page panicked, which is a bug: {story}"));
        }
    }
}

/// The address that `text` names.
pub(crate) fn resolved(text: &str) -> Result<SocketAddr, CliError> {
    let wrong = |detail: String| {
        CliError::usage(format!("cannot listen at {text:?}: {detail}; write it as 127.0.0.1:10809"))
    };
    let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("it is not an address".to_owned()))
}
