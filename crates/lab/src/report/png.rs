//! Figures as PNG files: the SVG, drawn with fonts of the host.

use std::collections::BTreeSet;
use std::sync::Arc;

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::{Database, FaceInfo, Family, Query, Style};
use resvg::usvg::roxmltree::Document;
use resvg::usvg::{Group, Node, Options, TextChunk, TextRendering, Tree};

use super::scene::Scene;
use super::svg::{Place, svg};

/// Reason why a figure cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The host has no fonts.
    #[error("PNG needs a font, and this host has none: 'apt-get install fonts-dejavu-core' installs one")]
    NoFont,
    /// No font of the host has the letters of this text.
    #[error("no font of this host has all letters of '{0}': install one that has, or export --svg")]
    NoLetter(String),
    /// The figure has more pixels than fit in memory.
    #[error("figure {0} is too large at this resolution: choose a smaller --width")]
    TooLarge(String),
}

/// Draws figures with the fonts of the host, which are read once.
#[derive(Debug)]
pub struct Painter {
    options: Options<'static>,
    width: u32,
}

impl Painter {
    /// Creates a painter of figures that are `width` pixels wide.
    pub fn new(width: u32) -> Result<Self, PngError> {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        Self::with_fonts(fonts, width)
    }

    fn with_fonts(mut fonts: Database, width: u32) -> Result<Self, PngError> {
        let family = sans_serif(&fonts).ok_or(PngError::NoFont)?;
        fonts.set_sans_serif_family(&family);
        // Resvg tries this family last, and leaves the text out if the host does not have it.
        fonts.set_serif_family(&family);
        let options = Options {
            fontdb: Arc::new(fonts),
            // The default fits letters to a grid of one unit of the SVG, which is three pixels.
            text_rendering: TextRendering::GeometricPrecision,
            ..Options::default()
        };
        Ok(Self { options, width })
    }

    /// Returns a figure as a PNG file. The file says that the figure is 12 cm wide.
    pub fn png(&self, scene: &Scene) -> Result<Vec<u8>, PngError> {
        let pixmap = self.draw(&svg(scene, Place::File))?;
        pixmap.map(|pixmap| encoded(&pixmap)).ok_or_else(|| PngError::TooLarge(scene.id.clone()))
    }

    /// Returns the pixels of an SVG, or `None` if they are too many for the memory.
    fn draw(&self, svg: &str) -> Result<Option<Pixmap>, PngError> {
        let document = Document::parse(svg).expect("the writer of SVG writes XML");
        let tree = Tree::from_xmltree(&document, &self.options).expect("the SVG has a size");
        if let Some(text) = undrawn(&document, &tree) {
            return Err(PngError::NoLetter(text));
        }
        let size = tree.size().to_int_size().scale_to_width(self.width);
        let pixmap = size.and_then(|size| Some((size.to_size(), Pixmap::new(size.width(), size.height())?)));
        let Some((size, mut pixmap)) = pixmap else { return Ok(None) };
        pixmap.fill(Color::WHITE);
        let scale = size.width() / tree.size().width();
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
        Ok(Some(pixmap))
    }
}

fn encoded(pixmap: &Pixmap) -> Vec<u8> {
    // The paper covers the whole figure, so no pixel is transparent.
    let colours: Vec<u8> = pixmap.data().chunks_exact(4).flat_map(|rgba| &rgba[..3]).copied().collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, pixmap.width(), pixmap.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // The width is 12 cm.
    let per_metre = (pixmap.width() * 100 + 6) / 12;
    let unit = png::Unit::Meter;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: per_metre, yppu: per_metre, unit }));
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&colours));
    written.expect("a vector accepts an image of this size");
    file
}

/// Returns the family for text without a known family: the host's sans-serif if it is installed,
/// else the best by its name. `None` if there are no fonts.
fn sans_serif(fonts: &Database) -> Option<String> {
    let name = |face: &FaceInfo| face.families.first().map(|(name, _)| name.clone());
    let generic = fonts.query(&Query { families: &[Family::SansSerif], ..Query::default() });
    let generic = generic.and_then(|id| fonts.face(id)).and_then(name);
    let named = fonts.faces().filter_map(|face| {
        let name = name(face)?;
        let is_last_choice = face.monospaced || face.style != Style::Normal;
        Some((is_last_choice, !name.contains("Sans"), name))
    });
    generic.or_else(|| named.min().map(|(.., name)| name))
}

/// Returns the first text of an SVG that has no glyphs for all its letters.
fn undrawn(document: &Document<'_>, tree: &Tree) -> Option<String> {
    let mut drawn = BTreeSet::new();
    collect_drawn(tree.root(), &mut drawn);
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let mut texts = texts.map(|node| words(node.text().unwrap_or_default())).filter(|text| !text.is_empty());
    texts.find(|text| !drawn.contains(text))
}

fn collect_drawn(group: &Group, drawn: &mut BTreeSet<String>) {
    for node in group.children() {
        match node {
            Node::Group(group) => collect_drawn(group, drawn),
            Node::Text(text) => {
                let mut glyphs = text.layouted().iter().flat_map(|span| &span.positioned_glyphs);
                // Glyph 0 of every font stands for a letter that the font does not have.
                if glyphs.all(|glyph| glyph.id.0 != 0) {
                    let text: String = text.chunks().iter().map(TextChunk::text).collect();
                    drawn.insert(words(&text));
                }
            }
            Node::Path(_) | Node::Image(_) => {}
        }
    }
}

/// Returns a text with single blanks between its words, as SVG draws it.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::palette::LIGHT;
    use super::super::tests as samples;
    use super::*;

    fn painter() -> Painter {
        Painter::new(960).expect("tests of PNG need a font")
    }

    /// Returns an SVG without the elements of its texts.
    fn without_texts(svg: &str) -> String {
        let mut parts = svg.split("<text");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out += part.split_once("</text>").expect("texts have ends").1;
        }
        out
    }

    /// Returns the columns and rows of pixels around the anchor of a text (its begin, middle or
    /// end), at two pixels for a unit of the SVG.
    fn place(x: f32, y: f32) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
        let pixel = |at: f32| format!("{:.0}", at.max(0.0) * 2.0).parse::<u32>().expect("a small number");
        (pixel(x - 8.0)..pixel(x + 8.0).min(960), pixel(y - 9.0)..pixel(y + 2.0))
    }

    #[test]
    fn figures_have_ink_where_text_stands() {
        let painter = painter();
        for scene in samples::gallery() {
            let svg = svg(&scene, Place::File);
            let drawn = |svg: &str| painter.draw(svg).expect("all letters").expect("a small figure");
            let (with, without) = (drawn(&svg), drawn(&without_texts(&svg)));
            let document = Document::parse(&svg).expect("XML");
            let texts = document.descendants().filter(|node| node.has_tag_name("text"));
            let mut count = 0;
            for node in texts.filter(|node| node.text().is_some()) {
                let at = |name| node.attribute(name).and_then(|it| it.parse().ok()).expect("a place");
                let (columns, rows) = place(at("x"), at("y"));
                let mut pixels = rows.flat_map(|y| columns.clone().map(move |x| (x, y)));
                let has_ink = pixels.any(|(x, y)| with.pixel(x, y) != without.pixel(x, y));
                assert!(has_ink, "{}: no ink at {:?}", scene.id, node.text());
                count += 1;
            }
            assert!(count > 4, "{}: {count} texts", scene.id);
        }
    }

    #[test]
    fn files_have_the_size_and_colours() {
        let file = painter().png(&samples::side_by_side()).expect("a file");
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().expect("a header");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a small figure")];
        let info = reader.next_frame(&mut pixels).expect("an image");
        let text = svg(&samples::side_by_side(), Place::File);
        let document = Document::parse(&text).expect("XML");
        let view = document.root_element().attribute("viewBox").expect("a size");
        let height: f64 = view.rsplit(' ').next().and_then(|it| it.parse().ok()).expect("a height");
        assert_eq!((info.width, f64::from(info.height)), (960, (height.ceil() * 2.0).ceil()));
        let dimensions = reader.info().pixel_dims.expect("a resolution");
        assert_eq!((dimensions.xppu, dimensions.yppu), (8000, 8000), "960 pixels for 12 cm");
        for colour in &LIGHT[..2] {
            let rgb = [1, 3, 5].map(|i| u8::from_str_radix(&colour[i..i + 2], 16).expect("two digits"));
            assert!(pixels.chunks_exact(3).any(|pixel| pixel == rgb), "{colour}");
        }
    }

    #[test]
    fn missing_fonts_and_letters_are_refused() {
        let error = Painter::with_fonts(Database::new(), 960).expect_err("no font");
        assert!(error.to_string().contains("apt-get install"), "{error}");
        let mut scene = samples::side_by_side();
        scene.series[0].name = "private \u{10fffd}".to_owned();
        let error = painter().png(&scene).expect_err("no font has the letter");
        assert_eq!(error, PngError::NoLetter("private \u{10fffd}".to_owned()));
    }
}
