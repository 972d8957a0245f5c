const gallery = document.getElementById("gallery");
const items = [...gallery.children];
const wanted = document.getElementById("wanted");
const order = document.getElementById("order");
const texts = items.map((item) => [...item.querySelectorAll(".generated-text, .people li")]
  .map((part) => part.textContent.toLowerCase()).join(" "));
wanted.form.addEventListener("submit", (event) => event.preventDefault());
wanted.addEventListener("input", () => {
  const word = wanted.value.trim().toLowerCase();
  items.forEach((item, i) => { item.hidden = !texts[i].includes(word); });
  const found = items.filter((item) => !item.hidden).length;
  document.getElementById("found").textContent = `${found.toLocaleString("en")} caption${found === 1 ? "" : "s"}`;
});
order.addEventListener("change", () => {
  const key = order.value.replace("-", "");
  const sign = order.value.startsWith("-") ? -1 : 1;
  const value = (item) => sign * Number(item.dataset[key]);
  gallery.append(...[...items].sort((a, b) => value(a) - value(b)));
});
