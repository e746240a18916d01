"use strict";
(() => {
  const folds = (within = document) => [...within.querySelectorAll("details")];

  /* on paper nothing can be opened, so everything is open; afterwards the screen is as it was */
  let shut = [];
  addEventListener("beforeprint", () => {
    shut = folds().filter((fold) => !fold.open);
    for (const fold of shut) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of shut) fold.open = false;
  });

  /* who follows a link to a section wants to see it */
  const reveal = () => {
    const fold = document.getElementById(location.hash.slice(1))?.querySelector("details.evidence");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();

  /* without a script there is no button that does nothing */
  const button = document.getElementById("unfold");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    for (const fold of document.querySelectorAll("details.evidence")) fold.open = open;
    button.setAttribute("aria-pressed", String(open));
  });
})();
