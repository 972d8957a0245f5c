for (const figure of document.querySelectorAll("figure")) {
  const words = [...figure.querySelectorAll("button")];
  const maps = [...figure.querySelectorAll(".map")];
  const note = figure.querySelector(".note");
  let chosen = -1;
  const show = (index) => {
    for (const row of [words, maps]) {
      row.forEach((part, i) => part.classList.toggle("shown", i === index));
    }
    figure.classList.toggle("looking", index >= 0);
    note.textContent = index < 0 ? "" : words[index].dataset.note;
  };
  words.forEach((word, index) => {
    word.tabIndex = index ? -1 : 0;
    word.style.setProperty("--beta", word.dataset.beta);
    word.addEventListener("pointerenter", () => show(index));
    word.addEventListener("pointerleave", () => show(chosen));
    word.addEventListener("click", () => word.focus());
    word.addEventListener("focus", () => {
      words.forEach((other) => { other.tabIndex = other === word ? 0 : -1; });
      show(chosen = index);
    });
    word.addEventListener("blur", () => show(chosen = -1));
    word.addEventListener("keydown", (event) => {
      const last = words.length - 1;
      const next = {
        ArrowRight: Math.min(index + 1, last), ArrowDown: Math.min(index + 1, last),
        ArrowLeft: Math.max(index - 1, 0), ArrowUp: Math.max(index - 1, 0), Home: 0, End: last,
      }[event.key];
      if (event.key === "Escape") word.blur();
      if (next === undefined) return;
      event.preventDefault();
      words[next].focus();
    });
  });
}
