//! nginx with 1 GiB of files of which the newest tenth is asked for, by Zipf's law.
//!
//! Its memory is the page cache: the two workers have only some MiB of their own. What a policy
//! saves of it shows in the machine's memory, not in the resident memory of the processes.

use std::fs;

use anyhow::Context;

use super::keys;
use crate::processes::child::Child;
use crate::programs::clients::connection::key_name;
use crate::programs::clients::keyed::{Keyed, Load};
use crate::programs::clients::{Http, value};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

const LOAD: Load = Load { keys: 65_536, rate: 5_000.0, depth: 16 };
const FILE_LEN: usize = 16 << 10;
/// A directory that is not in the `PATH` of all users.
const SBIN: &str = "/usr/sbin/nginx";

/// Everything that it writes is in its own directory, to which all paths are relative.
const CONFIG: &str = "\
daemon off;
pid nginx.pid;
error_log stderr;
worker_processes 2;
events {}
http {
    access_log off;
    sendfile on;
    open_file_cache max=10000;
    keepalive_requests 1000000000;
    keepalive_timeout 1d;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {
        listen unix:@/nginx.sock;
        root files;
    }
}
";

/// The program.
#[derive(Debug)]
pub(crate) struct Nginx;

impl Program for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn about(&self) -> &'static str {
        "nginx, two workers, 1 GiB of files of 16 KiB in the page cache, a tenth by Zipf's law"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&[SBIN], "nginx")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let load = Load { keys: keys(LOAD.keys, size)?, ..LOAD };
        make_files(place, load.keys)?;
        let dir = place.path().to_str().context("a path that is no text")?;
        let mut config = CONFIG.replace('@', dir);
        if rustix::process::geteuid().is_root() {
            // The files are ours; a worker as another user could not enter the directory.
            config.insert_str(0, "user root;\n");
        }
        place.write("nginx.conf", &config)?;
        let args = ["-p", dir, "-c", "nginx.conf", "-e", "stderr"];
        let child = Child::start(SBIN, args, &place.file("nginx.log"))?;
        Ok(Box::new(Keyed::<Http>::connect(child, &place.file("nginx.sock"), load, 10)?))
    }
}

/// One per key.
fn make_files(place: &Place, n: u32) -> anyhow::Result<()> {
    let dir = place.file("files");
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    let mut text = Vec::with_capacity(FILE_LEN);
    for key in 0..n {
        text.clear();
        value::write(key, FILE_LEN, &mut text);
        let path = dir.join(String::from_utf8_lossy(&key_name(key)).as_ref());
        fs::write(&path, &text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
