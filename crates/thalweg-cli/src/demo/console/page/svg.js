// Creates SVG elements with attributes and children.

const SPACE = "http://www.w3.org/2000/svg";

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export const words = (text, attributes) => draw("text", attributes, text);
