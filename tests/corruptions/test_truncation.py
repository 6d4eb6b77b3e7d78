"""Fast paths in float32 give the levels of the published float64 operations, whatever the image."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.corruptions.image import blur, truncation, zoom

FACTORS = tuple(np.arange(1, 1.31, 0.03).tolist())[1:]


def images_with_constant_regions(make_images):
    images = make_images(2, 60, 44)
    images[0, :30], images[0, 30:40, :20], images[1, 20:] = 255, 0, 77  # most values become doubtful
    return images


@pytest.fixture(params=["textured", "constant regions", "a ramp"])
def planes(request, make_images):
    images = {
        "textured": make_images(2, 60, 44),
        "constant regions": images_with_constant_regions(make_images),
        "a ramp": np.broadcast_to(np.arange(60, dtype=np.uint8)[:, None, None], (1, 60, 44, 3)),
    }[request.param]
    return np.ascontiguousarray(np.moveaxis(images, -1, 0)).reshape(-1, 60, 44)


def test_zooms_in_float32_are_truncated_like_those_in_float64(planes):
    zoomed = zoom.Zoomed(planes / np.float32(255), FACTORS)
    fast = truncation.truncated(zoomed.levels(), 41 * truncation.ROUNDING, planes, zoomed.boxes(), zoomed)
    np.testing.assert_array_equal(fast, zoomed.everywhere())
    indices = np.arange(0, planes.size, 7)
    np.testing.assert_array_equal(zoomed.at(indices), zoomed.everywhere().ravel()[indices])


def test_gaussians_in_float32_are_truncated_like_those_in_float64(planes):
    blurred = blur.Blurred(planes, 1.5)
    np.testing.assert_array_equal(blur.blurred(planes, 1.5), blurred.everywhere())
    indices = np.arange(0, planes.size, 7)
    np.testing.assert_array_equal(blurred.at(indices), blurred.everywhere().ravel()[indices])
    exact = blur.gaussian(planes / 255, 1.5) * 255
    assert np.abs(blurred.levels() - exact).max() < (4 * blurred.reach + 8) * truncation.ROUNDING


def test_the_bound_holds_that_decides_which_levels_are_computed_again(planes):
    zoomed = zoom.Zoomed(planes / np.float32(255), FACTORS)
    total = zoomed.planes.astype(np.float64) * 2
    down, across = zoomed.axes
    for plane, summed in zip(zoomed.planes, total, strict=True):
        for rows, columns in zip(down.matrices, across.matrices, strict=True):
            summed += (columns @ (rows @ plane.astype(np.float64)).T).T
    error = np.abs(zoomed.levels() - total * 255 / (len(FACTORS) + 2)).max()
    assert error < 41 * truncation.ROUNDING / 2  # the other half is for the float32 sums of the published code


def test_constant_boxes_are_found(make_images):
    planes = np.moveaxis(images_with_constant_regions(make_images), -1, 0).reshape(-1, 60, 44)
    y, x = np.arange(60), np.arange(44)
    boxes = truncation.Boxes(np.maximum(y - 2, 0), np.minimum(y + 2, 59), np.maximum(x - 3, 0), np.minimum(x + 3, 43))
    constant = boxes.constant(np.ascontiguousarray(planes), np.arange(planes.size)).reshape(planes.shape)
    for plane, row, column in ((0, 5, 5), (0, 28, 5), (0, 27, 43), (0, 35, 5), (1, 30, 20), (1, 21, 20), (0, 55, 20)):
        part = planes[plane, boxes.top[row] : boxes.bottom[row] + 1, boxes.left[column] : boxes.right[column] + 1]
        larger = planes[plane, boxes.top[row] : boxes.bottom[row] + 2, boxes.left[column] : boxes.right[column] + 2]
        assert np.ptp(part) == 0 or not constant[plane, row, column]
        assert constant[plane, row, column] or np.ptp(larger) > 0  # it may look one row and column farther
    assert 0.2 < constant.mean() < 0.8
