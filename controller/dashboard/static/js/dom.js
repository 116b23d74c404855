// Making elements. Belongs here: that. Never: what they show.

/** An element. `props`: class, text, on (listeners by event), data, style (custom properties), else attributes. */
export function h(tag, props = {}, ...children) {
  return made(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(tag, props = {}, ...children) {
  return made(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function made(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, heard] of Object.entries(value)) element.addEventListener(event, heard);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, set] of Object.entries(value)) element.style.setProperty(key, set);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The page's element of that id. */
export const byId = (id) => document.getElementById(id);

/** Change a text only when it is another, so that nothing is laid out for nothing. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Change an attribute only when it is another; null takes it away. */
export function mark(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Have these children in this order, those that are there already staying where they are: focus survives. */
export function keyed(parent, items, keyOf, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    update?.(child, item);
    if (child === before) before = before.nextElementSibling;
    else parent.insertBefore(child, before);
  }
  for (const gone of old.values()) gone.remove();
}
