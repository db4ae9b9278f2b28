//! Requests that wait for a drive: several reads of one client at a time, and others by the device's setting.

use super::*;
use crate::{SectorDevice, SectorLen};
use imbrex_disk::{Blocks, Disk, DiskLayer};
use imbrex_disk_sim::SimDisk;
use std::time::Duration;

/// A drive whose reads wait for each other, and that records which threads wrote.
#[derive(Debug)]
struct Meeting {
    disk: SimDisk,
    /// The number of reads that must arrive before any continues.
    needed_count: usize,
    read_count: Mutex<usize>,
    met: Condvar,
    writers: Mutex<Vec<String>>,
}

impl DiskLayer for Meeting {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let mut count = self.read_count.lock().unwrap();
        *count += 1;
        self.met.notify_all();
        let is_short = |count: &mut usize| *count < self.needed_count;
        // The full time passes only if the others never come.
        let patience = Duration::from_secs(60);
        let (count, waited) = self.met.wait_timeout_while(count, patience, is_short).unwrap();
        drop(count);
        match waited.timed_out() {
            true => Err(DiskError::PowerLost),
            false => self.disk.read(at, buf),
        }
    }
    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.writers.lock().unwrap().push(name);
        self.disk.write(at, data, persist)
    }
}

/// A drive on which this many reads must meet, and its server.
fn served(waits: Waits, needed_count: usize) -> (Arc<Meeting>, Stand<SectorDevice>) {
    let disk = Arc::new(Meeting {
        disk: SimDisk::tiny_conventional(Blocks::new(64)),
        needed_count,
        read_count: Mutex::default(),
        met: Condvar::new(),
        writers: Mutex::default(),
    });
    let below = Arc::clone(&disk) as Arc<dyn Disk>;
    let device = SectorDevice::new(below, SectorLen::Bytes512).unwrap().with_waits(waits);
    (disk, Stand::of(device, |_, _| {}))
}

/// Sends `count` reads of one client each to another block, and takes the replies.
fn read_at_once(clients: &mut [Client<UnixStream>], count: u64) {
    let mut asked = Vec::new();
    for client in clients.iter_mut() {
        let requests = (0..count).map(|n| client.request(0, command::READ, n * 4096, 4096));
        let requests: Vec<Request> = requests.collect();
        requests.iter().for_each(|request| client.send(&request.encode()));
        asked.push(requests.iter().map(|request| request.cookie).collect::<Vec<_>>());
    }
    for (client, asked) in clients.iter_mut().zip(asked) {
        let mut answered = Vec::new();
        for _ in 0..count {
            let (cookie, reply) = client.reply(4096);
            assert_eq!(reply.map(|reply| reply.data), Ok(vec![0; 4096]));
            answered.push(cookie);
        }
        answered.sort_unstable();
        assert_eq!(answered, asked);
    }
}

/// As many reads of one client wait at the drive at a time as a drive queues, so that it orders them. Four
/// lanes were the most.
#[test]
fn a_drives_queue_of_reads_of_one_client_waits_in_parallel() {
    let (_, stand) = served(Waits::All, 32);
    read_at_once(&mut [stand.client(true)], 32);
}

#[test]
fn reads_of_several_clients_wait_in_parallel() {
    let (_, stand) = served(Waits::All, 48);
    read_at_once(&mut [stand.client(true), stand.client(true), stand.client(true)], 16);
}

#[test]
fn cached_writes_use_lanes_if_all_requests_wait() {
    for (waits, writer) in [(Waits::Nothing, "server"), (Waits::All, "nbd lane")] {
        let (disk, stand) = served(waits, 0);
        stand.client(true).write(4096, &[1; 4096]).unwrap();
        assert_eq!(*disk.writers.lock().unwrap(), [writer], "{waits:?}");
    }
}
