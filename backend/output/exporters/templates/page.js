// The page reads without this script; with it, attempts unfold together, links unfold what they lead to, and images enlarge.
(() => {
  const folds = [...document.querySelectorAll("details.attempts")];
  const unfold = document.getElementById("unfold");
  if (unfold) {
    unfold.parentElement.hidden = false;
    const label = () => {
      const open = folds.length > 0 && folds.every((fold) => fold.open);
      unfold.setAttribute("aria-pressed", String(open));
      unfold.textContent = open ? unfold.dataset.open : unfold.dataset.folded;
    };
    unfold.addEventListener("click", () => {
      const open = folds.every((fold) => fold.open);
      folds.forEach((fold) => { fold.open = !open; });
      label();
    });
    folds.forEach((fold) => fold.addEventListener("toggle", label));
  }

  const zoom = document.getElementById("zoom");
  const large = zoom.querySelector("img");
  const source = (picture) => {
    const stored = document.querySelector(picture.querySelector("use").getAttribute("href"));
    return stored.querySelector("image").getAttribute("href");
  };
  document.querySelectorAll(":is(.plate, .pair, .gallery, .cast) :is(img, .picture)").forEach((image) => {
    const show = () => {
      large.src = image.src || source(image);
      large.alt = image.alt || image.getAttribute("aria-label");
      zoom.showModal();
    };
    image.setAttribute("tabindex", "0");
    image.setAttribute("role", "button");
    image.setAttribute("aria-haspopup", "dialog");
    image.addEventListener("click", show);
    image.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(); }
    });
  });
  zoom.addEventListener("click", (event) => { if (event.target !== large) zoom.close(); });

  const articles = [...document.querySelectorAll("article")];
  document.addEventListener("keydown", (event) => {
    if (zoom.open || event.ctrlKey || event.metaKey || event.altKey || !["j", "k"].includes(event.key)) return;
    const middle = window.innerHeight / 2;
    const here = articles.findLastIndex((article) => article.getBoundingClientRect().top < middle);
    const next = articles[Math.max(0, Math.min(articles.length - 1, here + (event.key === "j" ? 1 : -1)))];
    if (next) { next.scrollIntoView(); next.focus({ preventScroll: true }); }
  });
})();
