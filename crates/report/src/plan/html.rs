//! The plan as one page for a browser: the picture and the text, nothing to load.

use super::Report;
use crate::html::escaped;

impl Report {
    /// The plan as one HTML page, to look at or to send. `policy`: the policy that is recommended.
    #[must_use]
    pub fn to_html(&self, policy: Option<&str>) -> String {
        let title = escaped(&format!("plan for {}", self.title));
        let (svg, text, verdict) =
            (self.to_svg(), escaped(&self.to_text()), escaped(&self.verdict()));
        let policy = policy.map_or_else(String::new, |policy| {
            format!("<h2>Policy</h2>\n<pre>{}</pre>\n", escaped(policy.trim_end()))
        });
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <title>{title}</title>\n<style>body {{ font: 15px sans-serif; margin: 2em; color: #222; \
             background: #fff }} pre {{ font-size: 13px; overflow-x: auto }}</style>\n</head>\n\
             <body>\n<h1>{title}</h1>\n<p>{verdict}</p>\n{svg}<pre>{text}</pre>\n{policy}</body>\n\
             </html>\n"
        )
    }
}
