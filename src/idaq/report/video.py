"""Videos of adaptation: the episodes of a film (`idaq.runs.replay`) side by side.

They are written to `RUN/videos/NAME-task-00.gif`.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from idaq.runs.replay import Film, Footage
from idaq.runs.results import RawResults, load_results
from idaq.runs.run import Run, RunPlace
from idaq.storage.outputs import GENERATOR, VIDEO, output_file

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

FRAME_MS, LAST_FRAME_MS = 60, 2_000

FONT_SIZE, LINE = 14, 20  # pixels
MARGIN, GAP = 10, 6
MIN_COLUMN = 300  # so that captions fit
BACKGROUND, TEXT, FAINT = "#FFFFFF", "#222222", "#666666"
TRACK, BAR = "#E6E6E6", "#0072B2"
SUCCESS = "#008561"
NUM_COLOURS = 256  # as many as a GIF can have


# --- What is shown ---


def write_video(run: RunPlace, film: Film) -> Path:
    """Write the video of a film of the run's."""
    run = Run.open(run)
    spec, results = run.family.spec, load_results(run, film.name, film.seed)
    kind = "test task" if run.identity.split == "test" else "held-out task"
    images = draw_frames(
        [
            f"{run.identity.family}, {kind} {film.task}",
            f"adaptation by {film.name}, agent of seed {film.seed}",
        ],
        [
            Panel(each, *_caption(film.roles[index], index, results, each, spec.has_success))
            for index, each in film.footage.items()
        ],
        film.every,
    )
    file = run.directory.video_file(film.name, film.task)
    write_gif(file, images)
    return file


def _caption(
    roles: list[str], index: int, results: RawResults, film: Footage, has_success: bool
) -> tuple[str, str, str]:
    """A title, what the episode is, and how it ended."""
    num_episodes = results["returns"].shape[1]
    title = " and ".join(roles).capitalize() + " episode"
    meaning = {
        "first": "a first guess",
        "selected": "the most in-distribution",
        "final": "the policy that is scored",
    }[roles[-1]]
    outcome = f"return {film.rewards.sum():,.1f}"
    if has_success:
        step = film.first_success
        outcome += ", no success" if step is None else f", success at step {step}"
    return title, f"{index + 1} of {num_episodes}: {meaning}", outcome


# --- How it looks ---


class Panel(NamedTuple):
    """One episode of a video and what is written above it."""

    film: Footage
    title: str
    meaning: str
    outcome: str


def draw_frames(header: Sequence[str], panels: Sequence[Panel], every: int) -> "list[Image]":
    """Pictures of all episodes side by side, under a header and captions, with the time."""
    from PIL import Image, ImageDraw

    _, height, width, _ = panels[0].film.frames.shape
    plain, bold = _font("DejaVuSans.ttf"), _font("DejaVuSans-Bold.ttf")
    captions_at = MARGIN + len(header) * LINE + GAP
    films_at = captions_at + 3 * LINE + GAP
    footer_at = films_at + height + GAP
    column = max(width, MIN_COLUMN)
    lefts = [MARGIN + i * (column + MARGIN) for i in range(len(panels))]
    size = (lefts[-1] + column + MARGIN, footer_at + LINE + MARGIN)

    # --- What stays the same in all pictures ---
    base = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(base)
    for i, line in enumerate(header):
        at = (MARGIN, MARGIN + i * LINE)
        draw.text(at, line, TEXT if i == 0 else FAINT, bold if i == 0 else plain)
    for left, panel in zip(lefts, panels, strict=True):
        succeeded = panel.film.first_success is not None
        draw.text((left, captions_at), panel.title, TEXT, bold)
        draw.text((left, captions_at + LINE), panel.meaning, TEXT, plain)
        outcome_at = (left, captions_at + 2 * LINE)
        draw.text(outcome_at, panel.outcome, SUCCESS if succeeded else TEXT, plain)

    # --- What moves ---
    num_steps = max(len(panel.film.rewards) for panel in panels)
    images = []
    for i in range(max(len(panel.film.frames) for panel in panels)):
        step = min(i * every, num_steps)
        image = base.copy()
        draw = ImageDraw.Draw(image)
        for left, panel in zip(lefts, panels, strict=True):
            film = panel.film
            frame = film.frames[min(i, len(film.frames) - 1)]
            image.paste(Image.fromarray(frame), (left, films_at))
            if film.first_success is not None and step >= film.first_success:
                corners = (left, films_at, left + width - 1, films_at + height - 1)
                draw.rectangle(corners, outline=SUCCESS, width=4)
        bar_at, bar_end = MARGIN + 130, size[0] - MARGIN - 1
        middle = footer_at + LINE // 2
        draw.text((MARGIN, middle), f"step {step} of {num_steps}", FAINT, plain, anchor="lm")
        draw.rectangle((bar_at, middle - 2, bar_end, middle + 2), TRACK)
        share = round(step / max(num_steps, 1) * (bar_end - bar_at))
        draw.rectangle((bar_at, middle - 2, bar_at + share, middle + 2), BAR)
        images.append(image)
    return images


@cache
def _font(file: str) -> "FreeTypeFont":
    """A font of Matplotlib's, so that videos look like figures and the same everywhere."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / file, FONT_SIZE)


def write_gif(path: Path, images: "Sequence[Image]") -> None:
    """Write a looping GIF with one palette, so that what stands still takes no space."""
    from PIL import Image

    # The palette suits the first, the middle and the last picture.
    samples = [images[i] for i in sorted({0, len(images) // 2, len(images) - 1})]
    mosaic = Image.new("RGB", (images[0].width, images[0].height * len(samples)))
    for i, sample in enumerate(samples):
        mosaic.paste(sample, (0, i * sample.height))
    # An octree also keeps colours of few pixels, such as a goal's, which a median cut averages out.
    palette = mosaic.quantize(NUM_COLOURS, method=Image.Quantize.FASTOCTREE)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    with output_file(path, VIDEO) as temporary:
        frames[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=frames[1:],
            duration=[FRAME_MS] * (len(frames) - 1) + [LAST_FRAME_MS],
            loop=0,
            comment=GENERATOR,
        )
