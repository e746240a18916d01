"use strict";
(() => {
  const folds = (within = document) => [...within.querySelectorAll("details")];

  /* everything is unfolded on paper, and restored afterwards */
  let shut = [];
  addEventListener("beforeprint", () => {
    shut = folds().filter((fold) => !fold.open);
    for (const fold of shut) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of shut) fold.open = false;
  });

  /* a link to a section unfolds it */
  const reveal = () => {
    const fold = document.getElementById(location.hash.slice(1))?.querySelector("details.evidence");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();

  /* the button is hidden without a script */
  const button = document.getElementById("unfold");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    for (const fold of document.querySelectorAll("details.evidence")) fold.open = open;
    button.setAttribute("aria-pressed", String(open));
  });
})();
