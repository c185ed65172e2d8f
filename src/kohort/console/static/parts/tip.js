/** Tooltip of the page: shows `data-tip` of an element on hover and focus; Escape hides it. */

const GAP = 6;

/** Called once. */
export function startTips() {
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  box.setAttribute("aria-hidden", "true");
  document.body.append(box);
  const show = (event) => {
    const owner = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    if (owner) place(box, owner);
    else box.hidden = true;
  };
  document.addEventListener("pointerover", show);
  document.addEventListener("focusin", show);
  const hide = () => {
    box.hidden = true;
  };
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}

function place(box, owner) {
  box.textContent = owner.getAttribute("data-tip");
  box.hidden = false;
  const of = owner.getBoundingClientRect();
  const size = box.getBoundingClientRect();
  const left = Math.min(Math.max(GAP, of.left), window.innerWidth - size.width - GAP);
  const below = of.bottom + GAP;
  const top = below + size.height > window.innerHeight ? of.top - size.height - GAP : below;
  box.style.left = `${Math.max(GAP, left)}px`;
  box.style.top = `${Math.max(GAP, top)}px`;
}
