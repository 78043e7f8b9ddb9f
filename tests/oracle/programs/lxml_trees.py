# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""lxml: parsing, XPath, XSLT, callbacks from libxml2 into Python."""
from lxml import etree, html

TEXT = "<r>" + "".join(f"<a i='{i}'><b>t{i}</b></a>" for i in range(300)) + "</r>"
STYLE = etree.XSLT(etree.XML(
    """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
    <xsl:template match="a"><c><xsl:value-of select="b"/></c></xsl:template></xsl:stylesheet>"""))


class Target:
    def start(self, tag, attrib):
        pass

    def end(self, tag):
        pass

    def data(self, data):
        pass

    def close(self):
        return 1


def late(_context, nodes):
    return [node for node in nodes if node.get("i", "0") > "2"]


while True:
    tree = etree.fromstring(TEXT)
    tree.xpath("//a[@i > 100]/b/text()")
    tree.xpath("f:late(//a)", namespaces={"f": "u"}, extensions={("u", "late"): late})
    STYLE(tree)
    etree.tostring(tree, pretty_print=True)
    html.fromstring("<p>x<br>" * 50)
    etree.XML(TEXT, etree.XMLParser(target=Target()))
    for element in tree.iter():
        element.get("i")
