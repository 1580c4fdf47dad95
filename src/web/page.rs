//! The files of the page, as they are in the program. Values only.

use crate::answer::kind;
use crate::routes::PageFile;

/// The text of a file.
pub(crate) const fn text(file: PageFile) -> &'static str {
    match file {
        PageFile::Index => include_str!("page/index.html"),
        PageFile::Style => include_str!("page/page.css"),
        PageFile::Drawing => include_str!("page/draw.js"),
        PageFile::Script => include_str!("page/page.js"),
        PageFile::Icon => include_str!("page/icon.svg"),
    }
}

/// What it is.
pub(crate) const fn kind_of(file: PageFile) -> &'static str {
    match file {
        PageFile::Index => kind::HTML,
        PageFile::Style => kind::CSS,
        PageFile::Drawing | PageFile::Script => kind::SCRIPT,
        PageFile::Icon => kind::SVG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PageFile; 5] =
        [PageFile::Index, PageFile::Style, PageFile::Drawing, PageFile::Script, PageFile::Icon];

    #[test]
    fn the_page_is_small() {
        let bytes: usize = ALL.iter().map(|file| text(*file).len()).sum();
        assert!((10_000..=60 * 1024).contains(&bytes), "{bytes}");
    }

    /// `Content-Security-Policy` would refuse them, and a host's name would be read as HTML.
    #[test]
    fn the_page_takes_nothing_from_elsewhere_and_puts_in_text_only() {
        let all: String = ALL.iter().map(|file| text(*file)).collect();
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "https://",
            "@import",
            "url(",
            "style=",
            "onclick=",
            "setAttribute(\"style\"",
        ] {
            assert!(!all.contains(word), "{word}");
        }
        let names = all.replace("http://www.w3.org/2000/svg", "");
        assert!(!names.contains("http://"));
        let index = text(PageFile::Index);
        assert!(!index.contains("<style") && index.matches("<script src=").count() == 2, "{index}");
    }
}
