//! Colours of figures: seven for each background, found by a search that starts at the hues of
//! Okabe and Ito and keeps a contrast of 3 to the background (WCAG 2.2, 1.4.11) and a distance
//! between all pairs, also as people with deuteranopia, protanopia and tritanopia see them.

/// Colours of series on a light background.
pub const LIGHT: [&str; 7] = ["#0453C7", "#B33D1F", "#0EA886", "#974E7D", "#120002", "#7D6BFD", "#BB8419"];
/// Index of the colour next to that of text, for limits and events.
pub const DARKEST: usize = 4;

/// Number of marker shapes. Coprime to the number of colours, so that series 8 has another look
/// than series 1.
const SHAPES: usize = 6;

/// Returns the marker of a series around the origin: the name of an SVG element and its shape.
pub fn marker(series: usize) -> (&'static str, &'static str) {
    let path = match series % SHAPES {
        0 => return ("circle", "r=\"3.4\""),
        1 => "d=\"M-3-3h6v6h-6z\"",
        2 => "d=\"M0-4.2L4 3H-4z\"",
        3 => "d=\"M0-4.4L4.4 0L0 4.4L-4.4 0z\"",
        4 => "d=\"M-4-3H4L0 4.2z\"",
        _ => "d=\"M-1.3-4H1.3V-1.3H4V1.3H1.3V4H-1.3V1.3H-4V-1.3H-1.3z\"",
    };
    ("path", path)
}

/// Returns the look with the colour of one series and the marker of another.
pub fn mixed(colour: usize, shape: usize) -> usize {
    let all = 0..LIGHT.len() * SHAPES;
    let fits = |look: &usize| look % LIGHT.len() == colour % LIGHT.len() && look % SHAPES == shape % SHAPES;
    all.into_iter().find(fits).unwrap_or(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colour of the background in light and in dark surroundings.
    const PAPER: [&str; 2] = ["#FFFFFF", "#14171C"];
    /// Colour of text and axes.
    const INK: [&str; 2] = ["#1B1F24", "#E8EAED"];
    /// Colours of series on a dark background.
    const DARK: [&str; 7] = ["#317AFD", "#C65523", "#27CB7C", "#B871A8", "#D7F8EA", "#BFB5F3", "#FFE231"];

    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|i| {
            let channel = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).expect("two digits")) / 255.0;
            if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour| {
            let [r, g, b] = linear(colour);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b): (f64, f64) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn times(matrix: [[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
    }

    /// Returns coordinates in Oklab, where distances are as people see them.
    fn oklab(linear: [f64; 3]) -> [f64; 3] {
        let lms = times(
            [
                [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
            ],
            linear.map(|channel| channel.max(0.0)),
        );
        times(
            [
                [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
                [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
                [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
            ],
            lms.map(f64::cbrt),
        )
    }

    /// Machado, Oliveira and Fernandes (2009): severity 1 of deuteranopia, protanopia, tritanopia.
    const VISION: [(&str, f64, [[f64; 3]; 3]); 4] = [
        ("full", 0.115, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "deuteranopia",
            0.115,
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        ),
        (
            "protanopia",
            0.115,
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "tritanopia",
            0.09,
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ],
        ),
    ];

    #[test]
    fn colours_differ_for_every_kind_of_vision() {
        for colours in [LIGHT, DARK] {
            for (vision, least, matrix) in VISION {
                let seen = colours.map(|colour| oklab(times(matrix, linear(colour))));
                for i in 0..seen.len() {
                    for j in 0..i {
                        let d = (0..3).map(|k| (seen[i][k] - seen[j][k]).powi(2)).sum::<f64>().sqrt();
                        assert!(d >= least, "{vision}: {} and {} are {d:.3} apart", colours[i], colours[j]);
                    }
                }
            }
        }
    }

    #[test]
    fn colours_have_contrast_to_background() {
        for (paper, ink, colours) in [(PAPER[0], INK[0], LIGHT), (PAPER[1], INK[1], DARK)] {
            assert!(contrast(paper, ink) >= 7.0);
            for colour in colours {
                assert!(contrast(paper, colour) >= 3.0, "{colour} on {paper}");
            }
        }
    }

    #[test]
    fn looks_mix_any_colour_with_any_marker() {
        for (colour, shape) in (0..9).flat_map(|colour| (0..9).map(move |shape| (colour, shape))) {
            let look = mixed(colour, shape);
            assert_eq!((look % LIGHT.len(), marker(look)), (colour % LIGHT.len(), marker(shape)));
        }
    }

    #[test]
    fn neighbours_differ_in_shape() {
        for series in 0..20 {
            assert_ne!(marker(series), marker(series + 1));
            assert_ne!((marker(series), series % 7), (marker(series + 7), series % 7), "same colour");
        }
    }
}
