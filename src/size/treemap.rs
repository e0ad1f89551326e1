//! Areas in proportion to numbers, as square as may be (the squarified layout of Bruls, Huizing and van Wijk).

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left.
    pub x: f64,
    /// Top.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

/// Lays out `values`, largest first, in `rect`: one rectangle each, in order.
pub fn squarify(values: &[u64], rect: Rect) -> Vec<Rect> {
    let total: f64 = values.iter().map(|&v| v as f64).sum();
    if total <= 0.0 || rect.w <= 0.0 || rect.h <= 0.0 {
        return values.iter().map(|_| Rect { w: 0.0, h: 0.0, ..rect }).collect();
    }
    let scale = rect.w * rect.h / total;
    let areas: Vec<f64> = values.iter().map(|&v| v as f64 * scale).collect();
    let mut out = Vec::with_capacity(areas.len());
    let (mut left, mut at) = (rect, 0);
    while at < areas.len() {
        let side = left.w.min(left.h);
        let mut end = at + 1;
        while end < areas.len() && worst(&areas[at..=end], side) <= worst(&areas[at..end], side) {
            end += 1;
        }
        left = row(&areas[at..end], left, &mut out);
        at = end;
    }
    out
}

/// The worst ratio of sides in a row along `side`.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let ratio = |area: &f64| {
        let (a, b) = (side * side * area, sum * sum);
        if a <= 0.0 || b <= 0.0 { f64::INFINITY } else { (a / b).max(b / a) }
    };
    row.iter().map(ratio).fold(0.0, f64::max)
}

/// Places a row along the shorter side and gives what is left.
fn row(areas: &[f64], left: Rect, out: &mut Vec<Rect>) -> Rect {
    let sum: f64 = areas.iter().sum();
    let wide = left.w >= left.h;
    let side = if wide { left.h } else { left.w };
    let thick = if side > 0.0 { sum / side } else { 0.0 };
    let mut along = 0.0;
    for area in areas {
        let length = if thick > 0.0 { area / thick } else { 0.0 };
        out.push(if wide {
            Rect { x: left.x, y: left.y + along, w: thick, h: length }
        } else {
            Rect { x: left.x + along, y: left.y, w: length, h: thick }
        });
        along += length;
    }
    if wide {
        Rect { x: left.x + thick, w: (left.w - thick).max(0.0), ..left }
    } else {
        Rect { y: left.y + thick, h: (left.h - thick).max(0.0), ..left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn areas_are_in_proportion_and_stay_inside(mut values in prop::collection::vec(0u64..1_000_000, 1..40)) {
            values.sort_by_key(|v| std::cmp::Reverse(*v));
            let rect = Rect { x: 0.0, y: 0.0, w: 100.0, h: 60.0 };
            let rects = squarify(&values, rect);
            let total: f64 = values.iter().map(|&v| v as f64).sum();
            prop_assert_eq!(rects.len(), values.len());
            for (value, r) in values.iter().zip(&rects) {
                let expected = if total > 0.0 { *value as f64 / total * 6000.0 } else { 0.0 };
                prop_assert!((r.w * r.h - expected).abs() < 1e-6 * 6000.0, "{:?} {}", r, expected);
                prop_assert!(r.x >= -1e-6 && r.y >= -1e-6 && r.x + r.w < 100.0 + 1e-6 && r.y + r.h < 60.0 + 1e-6, "{:?}", r);
            }
        }
    }
}
