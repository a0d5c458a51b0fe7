"""The templates in order from first to last: a short name for tests and programs, and the file's name.

The front ends show a pack's template under its file's name alone, as title and as description, so
the file's name is a number and a short description of the result. Graphs in API form, tests and the skill
use the short name, which stays when the description changes.
"""

from __future__ import annotations

from pathlib import Path

WORKFLOWS = Path(__file__).resolve().parents[3] / "workflows"
FILE_NAMES = {
    "tiny_world_story": "01 Tiny world story, nothing to download",
    "plan_by_hand": "02 A plan by hand, drawn and judged",
    "flux2_klein_4b_story": "03 FLUX.2 klein story, redrawn until right",
    "how_to_guide": "04 How-to guide, one scene in clear steps",
    "comic_with_character_sheet": "05 Comic with a character sheet",
    "textbook_page_with_labels": "06 Textbook page, labels in the picture",
    "travel_narrative": "07 Travel story, your photo in every place",
    "guided_continuation": "08 Go on from your images",
    "one_encoder_two_jobs": "09 One encoder, two jobs, it plans, judges and draws",
    "qwen_image_edit_story": "10 Qwen Image Edit story from your image",
    "sdxl_image_to_image_story": "11 SDXL story, image to image",
    "diffusers_pipeline_story": "12 Diffusers pipeline story",
    "remote_agents": "13 Remote agents, remote images",
    "robot_manipulation": "14 Robot manipulation, every sub-goal an image",
    "sub_task_annotation": "15 Sub-task annotation of given pictures, text only",
    "judge_only": "16 One verdict on two images",
    "your_own_nodes_until_right": "17 Your own nodes, tried until right",
    "controlnet_and_upscale_in_the_loop": "18 ControlNet and upscale in the loop",
    "inpaint_what_the_step_names": "19 Inpaint what the step names",
    "a_list_of_stories": "20 A list of stories, one an item",
    "feedback_round_trip": "21 Feedback, your verdict teaches the critic",
    "published_pair": "22 Published planner and critic",
    "own_critic": "23 Your own critic judges",
    "best_of_four": "24 Best of four, the critic chooses",
    "three_photos": "25 Three photos of one character",
    "earlier_images": "26 Earlier images stay in sight",
    "hosted_node": "27 A hosted image model, until accepted",
    "picture_book": "28 Picture book with one hero",
    "film_storyboard": "29 Film storyboard, shots in wide format",
    "moving_story": "30 Moving story, Wan 2.2",
}
NAMES = tuple(FILE_NAMES)


def template_path(name: str) -> Path:
    """Return the path of a template by its short name. Its image is in the same folder."""
    return WORKFLOWS / f"{FILE_NAMES[name]}.json"
