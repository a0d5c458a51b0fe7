"""The story check: all images of a finished story on one sheet, judged together by any chat model."""
