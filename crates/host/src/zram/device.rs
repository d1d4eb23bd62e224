//! One zram block device: made, sized, given a swap header, and removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ZramError, error};

const PAGE: u64 = 4096;
/// The header takes one page.
const HEADER: usize = 4096;
/// In the swap header; says that the device is ours.
const LABEL: &[u8] = b"isotherm";
/// Where the kernel's `union swap_header` has version, last page, and the label of 16 bytes.
const VERSION_AT: usize = 1024;
const LAST_PAGE_AT: usize = 1028;
const LABEL_AT: usize = 1052;
const MAGIC: &[u8] = b"SWAPSPACE2";
/// How often to retry while the device is busy: device watchers open it for a moment when it
/// changes.
const BUSY_TRIES: u32 = 50;

/// What a device holds, by its `mm_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZramUse {
    /// Bytes stored, as they were before compression.
    pub stored_bytes: u64,
    /// Bytes after compression.
    pub compressed_bytes: u64,
    /// Memory that it takes in all, in bytes.
    pub memory_bytes: u64,
}

/// A device of ours. Dropping it does nothing: see [`Device::give_back`].
#[derive(Debug)]
pub(super) struct Device {
    number: u32,
    /// Whether we made it, and so must remove it.
    added: bool,
    given_back: bool,
}

impl Device {
    /// Makes a new device. Where devices cannot be made, takes one that has no size yet.
    pub(super) fn take() -> Result<Self, ZramError> {
        let tried = "read /sys/class/zram-control/hot_add";
        match fs::read_to_string("/sys/class/zram-control/hot_add") {
            Ok(text) => {
                let number = text.trim().parse();
                let number = number
                    .map_err(|e| error::io(tried, io::Error::new(io::ErrorKind::InvalidData, e)))?;
                Ok(Self { number, added: true, given_back: false })
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(error::io(tried, e)),
            Err(e) => Self::unused().ok_or_else(|| error::not_supported(tried, e)),
        }
    }

    fn unused() -> Option<Self> {
        let numbers = fs::read_dir("/sys/block").ok()?.filter_map(|entry| {
            entry.ok()?.file_name().to_str()?.strip_prefix("zram")?.parse::<u32>().ok()
        });
        let all = numbers.map(|number| Self { number, added: false, given_back: false });
        let mut free = all.filter(|device| device.is_unsized());
        free.next()
    }

    /// The device behind an active swap's name, if its header has our label.
    pub(super) fn left_behind(swap: &Path) -> Option<Self> {
        let number = swap.to_str()?.strip_prefix("/dev/zram")?.parse().ok()?;
        let mut header = [0; HEADER];
        File::open(swap).ok()?.read_exact_at(&mut header, 0).ok()?;
        // The label does not say whether the device was made or found, so one that cannot be
        // removed is only reset.
        has_label(&header).then_some(Self { number, added: true, given_back: false })
    }

    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.number))
    }

    fn is_unsized(&self) -> bool {
        fs::read_to_string(self.attribute("disksize")).is_ok_and(|text| text.trim() == "0")
    }

    /// Sizes the device and writes a swap header.
    pub(super) fn format(&self, bytes: u64) -> Result<(), ZramError> {
        let bytes = bytes / PAGE * PAGE;
        let header = swap_header(bytes).ok_or_else(|| {
            error::io(format!("make {bytes} bytes of swap"), io::ErrorKind::InvalidInput.into())
        })?;
        self.set("disksize", &bytes.to_string())?;
        let path = self.path();
        let tried = |e| error::io(format!("write a swap header to {}", path.display()), e);
        let file = OpenOptions::new().write(true).open(&path).map_err(tried)?;
        file.write_all_at(&header, 0).map_err(tried)?;
        file.sync_all().map_err(tried)
    }

    /// Drops what is stored and, if we made the device, removes it. A second call does nothing.
    pub(super) fn give_back(&mut self) -> Result<(), ZramError> {
        if self.given_back {
            return Ok(());
        }
        let mut tries = 0;
        while let Err(e) = self.set("reset", "1").and_then(|()| self.remove()) {
            tries += 1;
            if tries == BUSY_TRIES {
                return Err(e);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.given_back = true;
        Ok(())
    }

    fn remove(&self) -> Result<(), ZramError> {
        let file = "/sys/class/zram-control/hot_remove";
        if !self.added || !Path::new(file).exists() {
            return Ok(());
        }
        fs::write(file, self.number.to_string())
            .map_err(|e| error::io(format!("write {} to {file}", self.number), e))
    }

    pub(super) fn usage(&self) -> Result<ZramUse, ZramError> {
        let file = self.attribute("mm_stat");
        let tried = |e| error::io(format!("read {}", file.display()), e);
        let text = fs::read_to_string(&file).map_err(tried)?;
        parse_mm_stat(&text).ok_or_else(|| tried(io::ErrorKind::InvalidData.into()))
    }

    fn set(&self, attribute: &str, value: &str) -> Result<(), ZramError> {
        let file = self.attribute(attribute);
        fs::write(&file, value)
            .map_err(|e| error::io(format!("write {value} to {}", file.display()), e))
    }

    fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/zram{}/{name}", self.number))
    }
}

/// The first page of swap space of so many bytes: what mkswap writes. `None` if that is too small
/// (the kernel wants ten pages) or too large.
fn swap_header(bytes: u64) -> Option<[u8; HEADER]> {
    let last_page = u32::try_from((bytes / PAGE).checked_sub(1)?).ok().filter(|&n| n >= 9)?;
    let mut header = [0; HEADER];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(VERSION_AT, &1_u32.to_ne_bytes());
    put(LAST_PAGE_AT, &last_page.to_ne_bytes());
    put(LABEL_AT, LABEL);
    put(HEADER - MAGIC.len(), MAGIC);
    Some(header)
}

fn has_label(header: &[u8]) -> bool {
    header.ends_with(MAGIC) && header[LABEL_AT..LABEL_AT + 16].strip_prefix(LABEL) == Some(&[0; 8])
}

/// `orig_data_size compr_data_size mem_used_total ...`, in bytes.
fn parse_mm_stat(text: &str) -> Option<ZramUse> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(ZramUse { stored_bytes: next()?, compressed_bytes: next()?, memory_bytes: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_ours_and_no_others() {
        let mut header = swap_header(64 * PAGE).unwrap();
        assert!(has_label(&header));
        assert_eq!(header[LAST_PAGE_AT..LAST_PAGE_AT + 4], 63_u32.to_ne_bytes());
        header[LABEL_AT] = b'I';
        assert!(!has_label(&header));
        assert!(!has_label(&[0; HEADER]));
        for (bytes, fits) in [(0, false), (9 * PAGE, false), (10 * PAGE, true), (u64::MAX, false)] {
            assert_eq!(swap_header(bytes).is_some(), fits, "{bytes}");
        }
    }

    #[test]
    fn usage_is_the_first_three_numbers() {
        let line =
            "   53248    11076   73728        0   73728        2        0        0        0\n";
        let expected =
            ZramUse { stored_bytes: 53248, compressed_bytes: 11076, memory_bytes: 73728 };
        assert_eq!(parse_mm_stat(line), Some(expected));
        assert_eq!(parse_mm_stat("1 2"), None);
        assert_eq!(parse_mm_stat("1 2 x"), None);
    }
}
