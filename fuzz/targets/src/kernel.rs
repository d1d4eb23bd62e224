//! Binary data of the kernel, and the texts that describe it.

use isotherm_damon::tracefs::{EventKind, Format, Layout, Page, PageHeader, parse_line};
use isotherm_pages::tables::program::btf::Btf;

/// Type information: any bytes give an answer or an error, and offsets lie inside a struct.
pub(crate) fn btf(data: &[u8]) {
    let Ok(btf) = Btf::parse(data.to_vec()) else { return };
    for (name, member) in [("mm_struct", "pgd"), ("file", "f_op"), ("mm_struct", "owner"), ("", "")]
    {
        if let Ok(offset) = btf.pointer_offset(name, member) {
            assert!(offset <= u32::MAX - 8, "{name}.{member} at {offset}");
        }
    }
}

/// What Linux 6.18 says of its pages and events.
const HEADER_PAGE: &str = include_str!("../../corpus/trace_format/header_page");
const FORMATS: [(EventKind, &str); 2] = [
    (EventKind::Aggregated, include_str!("../../corpus/trace_format/damon_aggregated")),
    (EventKind::BeforeApply, include_str!("../../corpus/trace_format/damos_before_apply")),
];

/// Pages of a ring buffer, one behind the other, under the layout of a real kernel.
pub(crate) fn trace_page(data: &[u8]) {
    let header = PageHeader::parse(HEADER_PAGE).expect("the kernel's own text");
    let layouts: Vec<Layout> = FORMATS
        .into_iter()
        .map(|(kind, text)| Format::parse(text).and_then(|format| Layout::new(kind, &format)))
        .collect::<Result<_, _>>()
        .expect("the kernel's own text");
    for page in data.chunks(header.page_len()) {
        events(page, &header, &layouts);
    }
}

fn events(page: &[u8], header: &PageHeader, layouts: &[Layout]) {
    let Ok(events) = Page::new(page, header) else { return };
    let (mut bytes, mut broken) = (0, false);
    for event in events {
        assert!(!broken, "nothing follows what is broken");
        let Ok(event) = event else {
            broken = true;
            continue;
        };
        bytes += event.bytes.len();
        for layout in layouts {
            let _event = layout.decode(event.bytes);
        }
    }
    assert!(bytes <= page.len(), "the events are parts of the page, and apart");
}

/// Layouts that no kernel has, and events under them: the text's own bytes.
pub(crate) fn trace_format(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut layouts = Vec::new();
    if let Ok(format) = Format::parse(&text) {
        let all = EventKind::ALL.into_iter().filter_map(|kind| Layout::new(kind, &format).ok());
        layouts.extend(all);
    }
    for layout in &layouts {
        let _event = layout.decode(data);
    }
    if let Ok(header) = PageHeader::parse(&text) {
        events(data, &header, &layouts);
    }
}

/// Lines of a trace as text.
pub(crate) fn trace_line(data: &[u8]) {
    for line in String::from_utf8_lossy(data).lines() {
        let _line = parse_line(line);
    }
}
