// What is under the pointer, in words: whatever has a data-tip, in a box that follows.
const host = document.getElementById("tip");

export function hideTip() {
  host.hidden = true;
}

/** Show tips over an element. */
export function tips(element) {
  element.addEventListener("pointermove", (event) => {
    const text = event.target.closest?.("[data-tip]")?.dataset.tip;
    host.hidden = !text;
    if (!text) return;
    host.textContent = text;
    host.style.left = `${Math.min(event.clientX + 14, window.innerWidth - host.offsetWidth - 8)}px`;
    host.style.top = `${event.clientY + 18}px`;
  });
  element.addEventListener("pointerleave", hideTip);
}
