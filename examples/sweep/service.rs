//! A small HTTP service on this machine, which refuses every now and then, and its client.

use kstreams::prelude::*;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tiny_http::{Request, Response, Server};

use super::outbox::Deliver;

/// How often each message was offered, and how often it was taken.
pub(crate) type Offers = BTreeMap<String, (usize, usize)>;

/// A service that takes messages by `POST /<id>`. One in seven answers 404 the first two times that it is asked about it.
pub(crate) struct Service {
    server: Arc<Server>,
    offers: Arc<Mutex<Offers>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Service {
    /// Starts it on a free port of 127.0.0.1.
    pub(crate) fn start() -> Result<Self> {
        let server = Server::http("127.0.0.1:0").map_err(|error| {
            Error::new(ErrorKind::InvalidState, "the service cannot start").with_source(error)
        })?;
        let (server, offers) = (Arc::new(server), Arc::<Mutex<Offers>>::default());
        let threads = (0..4).map(|_| {
            let (server, offers) = (server.clone(), offers.clone());
            std::thread::spawn(move || {
                server.incoming_requests().for_each(|request| answer(request, &offers));
            })
        });
        Ok(Service { threads: threads.collect(), server, offers })
    }

    pub(crate) fn address(&self) -> String {
        self.server.server_addr().to_ip().as_ref().map_or_else(String::new, SocketAddr::to_string)
    }

    pub(crate) fn offers(&self) -> Offers {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.threads.iter().for_each(|_| self.server.unblock());
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn answer(request: Request, offers: &Mutex<Offers>) {
    let id = request.url().trim_start_matches('/').to_string();
    let is_difficult = id.bytes().map(usize::from).sum::<usize>() % 7 == 0;
    let takes = {
        let mut offers = offers.lock().unwrap_or_else(PoisonError::into_inner);
        let (offered, taken) = offers.entry(id).or_default();
        *offered += 1;
        let takes = !is_difficult || *offered > 2;
        *taken += usize::from(takes);
        takes
    };
    // Whoever asked and did not wait for the answer asks again.
    let _ = request.respond(Response::empty(if takes { 204 } else { 404 }));
}

/// Hands messages to the service at an address.
pub(crate) fn deliver_to(address: &str) -> Deliver {
    let (agent, address) = (ureq::Agent::new_with_defaults(), address.to_string());
    Arc::new(move |id, message| match agent.post(format!("http://{address}/{id}")).send(message) {
        Ok(_) => true,
        Err(ureq::Error::StatusCode(_)) => false,
        Err(error) => {
            tracing::warn!("the service at {address} cannot be reached: {error}");
            false
        }
    })
}
